//! `frostline daemon`: several targets, from a file.

use super::config;
use super::serve::{Shown, at_port};
use crate::live::config::{Config, Metrics, PLACE};
use crate::live::fleet::Fleet;
use crate::live::metrics::{self, server::Server};
use frostline_linux::Root;
use frostline_linux::process::share_heap;
use frostline_serve::http;
use frostline_terminal::progress::note;
use frostline_terminal::{cancel, errors, files};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Between two looks for signals.
const LOOK: Duration = Duration::from_millis(100);
/// Between two looks at what the configuration includes.
const INCLUDE: Duration = Duration::from_secs(1);
/// Between two versions of the textfile.
const WRITE: Duration = Duration::from_secs(1);

/// What `--help` says first.
pub const LONG: &str = "\
Keeps the hot pages of the programs that a configuration file names in fast memory, the others in \
a slower tier. Programs that do not run yet are waited for, and waited for again after they have \
ended.

SIGHUP has the file read again: targets that are new in it begin, those that are gone or differ are \
let go, all others go on undisturbed. So has a change of the file that `include` names. A file with a \
mistake changes nothing. SIGTERM and Ctrl-C end the daemon; the programs go on unharmed.";

const EXAMPLES: &str = "\
Examples:
  frostline daemon config check -c frostline.toml
  frostline daemon -c frostline.toml
  systemctl reload frostline";

#[derive(clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub struct Args {
    /// The configuration file
    #[arg(short, long, value_name = "FILE", default_value = PLACE)]
    config: PathBuf,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Show or check the configuration
    Config(config::Args),
}

/// Runs the command.
///
/// # Errors
/// Where the file is wrong, or the metrics cannot be served.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if let Some(Command::Config(args)) = &args.command {
        return config::run(args);
    }
    let mut config = Config::load(&args.config)?;
    let mut included = Included::new(config.daemon.include.clone());
    let reload = cancel::install_with_reload()?;
    // Targets have a thread each, and most of what they take is soon given back.
    share_heap();
    let mut fleet = Fleet::new(Root::system());
    let mut reporter = MetricsReporter::new(&fleet, &config)?;
    fleet.apply(&config)?;
    note(&format!("{} of {}", config.count(), args.config.display()));
    while !cancel::requested() {
        let asked = reload.swap(false, Ordering::Relaxed);
        if included.has_changed() || asked {
            let taken = Config::load(&args.config).and_then(|config| {
                reporter.apply(&fleet, &config)?;
                Ok(config)
            });
            match taken {
                Ok(new) if new == config && !asked => {}
                // From here on there is no way back.
                Ok(new) => {
                    config = new;
                    match fleet.apply(&config) {
                        Ok(()) => note(&format!("reloaded: {}", config.count())),
                        Err(error) => {
                            let why = errors::text(&error);
                            note(&format!("reloaded, but not all targets could begin: {why}"));
                        }
                    }
                    included.follow(&config.daemon.include);
                }
                Err(error) => {
                    note(&format!("not reloaded, all goes on as before: {}", errors::text(&error)));
                }
            }
        }
        reporter.write(&fleet);
        std::thread::sleep(LOOK);
    }
    note("ending; the programs go on");
    fleet.end();
    Ok(ExitCode::SUCCESS)
}

/// The file of other programs' targets, looked at once a second.
struct Included {
    path: Option<PathBuf>,
    /// Its inode, length and time of change, as of the last look.
    state: Option<(u64, u64, i64, i64)>,
    due: Instant,
}

impl Included {
    fn new(path: Option<PathBuf>) -> Self {
        // What was read may be older than what is there: the first look finds out.
        Self { path, state: None, due: Instant::now() }
    }

    fn look(&self) -> Option<(u64, u64, i64, i64)> {
        let status = std::fs::metadata(self.path.as_ref()?).ok()?;
        Some((status.ino(), status.len(), status.mtime(), status.mtime_nsec()))
    }

    /// Whether it is another than at the last look.
    fn has_changed(&mut self) -> bool {
        if Instant::now() < self.due {
            return false;
        }
        self.due = Instant::now() + INCLUDE;
        let state = self.look();
        std::mem::replace(&mut self.state, state) != state
    }

    /// Looks at another file from now on, where it is one.
    fn follow(&mut self, path: &Option<PathBuf>) {
        if *path != self.path {
            *self = Self::new(path.clone());
        }
    }
}

/// Tells others the numbers.
struct MetricsReporter {
    wanted: Metrics,
    server: Option<Server>,
    /// The page, and where it is.
    page: Option<(String, http::Server)>,
    due: Instant,
    /// The last failure to write the textfile: nothing is said twice in a row.
    failed: Option<String>,
}

impl MetricsReporter {
    fn new(fleet: &Fleet, config: &Config) -> anyhow::Result<Self> {
        let (wanted, due) = (Metrics::default(), Instant::now());
        let mut reporter = Self { wanted, server: None, page: None, due, failed: None };
        reporter.apply(fleet, config)?;
        Ok(reporter)
    }

    fn apply(&mut self, fleet: &Fleet, config: &Config) -> anyhow::Result<()> {
        let (wanted, web) = (&config.metrics, &config.daemon.web);
        if *web != self.page.as_ref().map(|(address, _)| address.clone()) {
            // The old one gives up a port that the new one may want.
            self.page = None;
            self.page = match web {
                Some(address) => Some((address.clone(), at_port(address, Shown::default())?)),
                None => None,
            };
        }
        if wanted.listen != self.wanted.listen {
            let view = fleet.viewer();
            let begin = |address: &String| Server::start(address, move || metrics::page(&view()));
            self.server = wanted.listen.as_ref().map(begin).transpose()?;
            if let Some(server) = &self.server {
                note(&format!("metrics at http://{}/metrics", server.address()));
            }
        }
        self.wanted = wanted.clone();
        Ok(())
    }

    fn write(&mut self, fleet: &Fleet) {
        let Some(path) = self.wanted.textfile.as_ref().filter(|_| Instant::now() >= self.due)
        else {
            return;
        };
        self.due = Instant::now() + WRITE;
        let page = metrics::page(&fleet.statuses());
        let failed = files::replace(path, page.as_bytes()).err().map(|e| errors::text(&e));
        if failed != self.failed {
            failed.iter().for_each(|text| note(text));
            self.failed = failed;
        }
    }
}
