//! Command-line options of the model and of programs side by side, shared by `sim` and `compare`.

use frostline_core::spec::{self, SpecError};
use frostline_core::types::Bytes;
use frostline_sim::{FastSize, FaultInjection, GuestSetup, Machine, Scale, SimOptions};
use frostline_study::{Guests, Programs, guests, machine};
use frostline_terminal::errors::usage;

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Switch {
    On,
    Off,
}

#[derive(clap::Args)]
#[command(next_help_heading = "Model")]
pub struct ModelArgs {
    /// Machine: a preset (see `frostline list machines`) or a TOML file, with parameters
    #[arg(short, long, value_name = "NAME[:key=value...]", default_value = "dram-nvm")]
    pub machine: String,
    /// Capacity of another tier, by name or number [default: as much as needed]
    #[arg(long, value_name = "TIER=SIZE", hide_short_help = true)]
    pub limit: Vec<String>,
    /// Translation lookaside buffer: modelled, or off, which takes a third less time and makes walks, and what
    /// huge pages save, free
    #[arg(
        long,
        value_enum,
        default_value = "on",
        value_name = "on|off",
        hide_possible_values = true
    )]
    pub tlb: Switch,
    /// Seed of everything random: sampling, policies, injected trouble
    #[arg(long, default_value_t = 1, hide_short_help = true)]
    pub seed: u64,
    /// Intervals of policies: as published (paper), or divided by how much larger the programs are that
    /// they were published for: 64 GiB (scaled), or a size
    #[arg(
        long,
        default_value = "scaled",
        value_name = "scaled|paper|SIZE",
        hide_short_help = true
    )]
    pub scale: Scale,
    /// Most bytes per second that may be migrated [default: no limit]
    #[arg(long, value_name = "SIZE", value_parser = spec::parse_bytes, hide_short_help = true)]
    pub migration_limit: Option<Bytes>,
    #[command(flatten)]
    pub trouble: TroubleArgs,
}

#[derive(clap::Args)]
#[command(next_help_heading = "Injected trouble")]
pub struct TroubleArgs {
    /// Share of samples that get lost, such as 5%
    #[arg(long, hide_short_help = true, value_name = "SHARE", default_value = "0", value_parser = spec::parse_ratio)]
    pub lost_samples: f64,
    /// Share of moves that find the page busy
    #[arg(long, hide_short_help = true, value_name = "SHARE", default_value = "0", value_parser = spec::parse_ratio)]
    pub busy_pages: f64,
    /// Share of move calls that find the destination full
    #[arg(long, hide_short_help = true, value_name = "SHARE", default_value = "0", value_parser = spec::parse_ratio)]
    pub full_node: f64,
    /// How often a process ends and loses its memory, spread over the trace
    #[arg(long, hide_short_help = true, value_name = "N", default_value_t = 0)]
    pub exits: u32,
}

impl TroubleArgs {
    /// In the simulator's terms.
    pub fn faults(&self) -> FaultInjection {
        FaultInjection {
            lost_samples: self.lost_samples,
            busy_pages: self.busy_pages,
            full_node: self.full_node,
            exits: self.exits,
        }
    }
}

impl ModelArgs {
    /// Options of a run, as far as they do not depend on policy and trace.
    ///
    /// # Errors
    /// An unknown machine or tier, a size that is none.
    pub fn options(&self, fast: FastSize) -> anyhow::Result<SimOptions> {
        let machine = machine(&self.machine)?;
        let limits = self.limit.iter().map(|text| limit(text, &machine));
        let limits = limits.collect::<anyhow::Result<Vec<_>>>()?;
        Ok(SimOptions {
            limits,
            seed: self.seed,
            tlb: self.tlb == Switch::On,
            scale: self.scale,
            migration_bytes_per_second: self.migration_limit,
            faults: self.trouble.faults(),
            ..SimOptions::new(machine, fast)
        })
    }
}

fn limit(text: &str, machine: &Machine) -> anyhow::Result<(u8, Bytes)> {
    let Some((tier, size)) = text.split_once('=') else {
        return Err(usage(format!("--limit {text}: no size"), "write TIER=SIZE, such as nvm=8GiB"));
    };
    let by_name = machine.tiers.iter().position(|t| t.name == tier);
    let number = by_name.or_else(|| tier.parse().ok().filter(|n| *n < machine.tiers.len()));
    let number = number.ok_or_else(|| {
        let known: Vec<&str> = machine.tiers.iter().map(|t| t.name.as_str()).collect();
        SpecError::unknown("tier", tier, &known)
    })?;
    Ok((number as u8, spec::parse_bytes(size)?))
}

/// What the command line says of programs side by side.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Programs side by side")]
pub struct ProgramArgs {
    /// Run each program in a virtual machine: none, or gpac[:cl=50] that gathers its hot pages; several
    /// with commas
    #[arg(long, hide_short_help = true, value_name = "LIST", value_parser = guests, default_value = "")]
    guest: Guests,
    /// So many of each trace at once, generated ones each with a seed of its own
    #[arg(long, hide_short_help = true, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    programs: u32,
    /// Another trace that runs at the same time; may be given several times
    #[arg(long, hide_short_help = true, value_name = "TRACE")]
    beside: Vec<String>,
    /// What runs beside a trace begins when that has come to this share of its records
    #[arg(long, hide_short_help = true, value_name = "SHARE", requires = "beside", value_parser = spec::parse_ratio)]
    beside_after: Option<f64>,
}

impl ProgramArgs {
    /// Kinds of virtual machines; none where programs run by themselves.
    pub fn guests(&self) -> Vec<GuestSetup> {
        self.guest.to_vec()
    }

    /// What runs at once, for each trace.
    pub fn programs(&self, traces: Vec<String>) -> Vec<Programs> {
        let programs = |trace| Programs {
            trace,
            copies: self.programs,
            beside: self.beside.clone(),
            beside_after: self.beside_after.unwrap_or(0.0),
            limit: None,
            guest_memory: None,
            fast: None,
            scale: None,
            machine: None,
        };
        traces.into_iter().map(programs).collect()
    }
}
