//! `frostline list machines`.

use super::param::ListedParam;
use frostline_report::table::Table;
use frostline_sim::Machine;
use frostline_study::machine;
use frostline_terminal::output;
use serde::Serialize;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  frostline list machines
  frostline list machines dram-cxl > box.toml    # edit it, then: --machine box.toml
  frostline compare s.flt --machine dram-nvm:mlp=8:tiers.nvm.read_ns=350

Every value of a description can be changed by its path (`tiers.nvm.read_ns`, `costs.split_ns`);
cores, fragmentation, ghz, ipc, mlp, thp, watermark and workers need no path.")]
pub(super) struct Args {
    /// Print the whole description of this machine, as TOML
    #[arg(value_name = "NAME[:key=value...]")]
    name: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Print TOML (the default for one machine)
    #[arg(long, conflicts_with = "json", requires = "name")]
    toml: bool,
}

#[derive(Serialize)]
struct Listed {
    name: &'static str,
    summary: &'static str,
    machine: Machine,
    params: Vec<ListedParam>,
}

/// Lists the machines or shows one.
///
/// # Errors
/// An unknown machine or parameter.
pub(super) fn run(args: Args) -> anyhow::Result<()> {
    match args.name {
        Some(name) => {
            let machine = machine(&name)?;
            match args.json {
                true => output::json(&[machine])?,
                false => output::text(&machine.to_toml())?,
            }
        }
        None if args.json => {
            let listed = Machine::presets().map(|(name, summary)| {
                let machine = machine(name)?;
                let params = Machine::params().map(ListedParam::of).collect();
                Ok(Listed { name, summary, machine, params })
            });
            output::json(&listed.collect::<anyhow::Result<Vec<_>>>()?)?;
        }
        None => {
            let mut table = Table::new(&["machine", "what it is"]).left(2);
            for (name, summary) in Machine::presets() {
                table.row(vec![name.to_owned(), summary.to_owned()]);
            }
            output::text(&table.show(0))?;
        }
    }
    Ok(())
}
