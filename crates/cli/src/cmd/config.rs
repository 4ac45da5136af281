//! `frostline daemon config`: the daemon's configuration as it takes effect.

use crate::live::config::{Config, PLACE};
use crate::live::options::default;
use crate::live::slow;
use frostline_linux::Root;
use frostline_terminal::output;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  frostline daemon config check -c frostline.toml
  frostline daemon config show
  frostline daemon config show -c frostline.toml";

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Print the configuration with all defaults filled in
    Show(File),
    /// Say whether the configuration is right
    Check(File),
}

#[derive(clap::Args)]
struct File {
    /// The configuration file [default: /etc/frostline/frostline.toml, where it exists]
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// Runs the command.
///
/// # Errors
/// Where the file cannot be read or is wrong.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match &args.command {
        Command::Show(file) => show(file)?,
        Command::Check(file) => {
            let path = file.config.clone().unwrap_or_else(|| PLACE.into());
            let config = Config::load(&path)?;
            output::text(&format!("{}: right, {}\n", path.display(), config.count()))?;
            for target in &config.targets {
                if let Some(who) = target.who(&Root::system()) {
                    output::text(&format!("{}: {who}\n", target.name))?;
                }
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn show(file: &File) -> anyhow::Result<()> {
    let usual = Path::new(PLACE);
    let path = file.config.as_deref().or_else(|| usual.exists().then_some(usual));
    let mut config = match path {
        Some(path) => Config::load(path)?,
        None => Config::default(),
    };
    let (tier, why) = slow::choose(&Root::system());
    for target in &mut config.targets {
        if target.options.slow.is_none() {
            target.options.set_words("slow", &[tier.to_string()])?;
        }
        let options = &mut target.options;
        let sized = options.fast.is_some() || config.daemon.save.is_some();
        if options.moves() && !sized && options.max_slowdown.is_none() {
            options.set_words("max_slowdown", &[default::MAX_SLOWDOWN.into()])?;
        }
    }
    let from = path.map_or("built in".into(), |path| path.display().to_string());
    let text = toml::to_string(&config)?;
    output::text(&format!("# {from}; without slow = ..., {why}\n{text}"))
}
