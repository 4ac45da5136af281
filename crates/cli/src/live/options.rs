//! Options of tiering, on the command line.

use super::slow;
use anyhow::Context;
use frostline_core::types::Bytes;
pub use frostline_driver::options::default;
use frostline_driver::{Options, Size};
use frostline_linux::{Root, process};
use frostline_terminal::errors::usage;
use std::path::PathBuf;

/// Arguments of every command that tiers a running program.
#[derive(clap::Args, Clone, Debug)]
pub struct Tiering {
    /// Policy that decides which pages are fast, with parameters: memtis:alpha=0.8
    #[arg(short, long, value_name = "POLICY", default_value = default::POLICY)]
    pub policy: String,
    /// Fast memory for the program: 2GiB, 40% of what it has, or 1:4 (fast to slow)
    ///
    /// Shares and ratios are of what the program has in all tiers at the moment. 2GB is 2GiB. Without it,
    /// --max-slowdown decides.
    #[arg(short, long, value_name = "SIZE")]
    pub fast: Option<String>,
    /// Take that much memory out of the fast tier, in place of a limit of it: 2GiB
    ///
    /// It goes by 1% of what the program has in a second, and a 64th of that stays. With --max-slowdown, no
    /// more is taken than that allows.
    #[arg(long, value_name = "SIZE")]
    pub save: Option<String>,
    /// How much slower the program may become: as much memory is slow as that allows [default: 1%
    /// without --fast]
    ///
    /// With --fast, which is the most then. Between nodes without hardware that counts loads, what is lost is
    /// estimated from touches of pages. Where nobody sees these, half of the memory stays fast by default.
    #[arg(long, value_name = "SHARE")]
    pub max_slowdown: Option<String>,
    /// Least fast memory under a goal, as for --fast
    #[arg(long, value_name = "SIZE", hide_short_help = true)]
    pub min_fast: Option<String>,
    /// Slow tier: node:N, zram[:size=4GiB], swap, or none [default: the best there is]
    ///
    /// zram takes algorithm=lz4, too. swap is what the system has. none only watches. Several tiers,
    /// the fastest first, by repeating it. By default a node of a lower memory tier, else zram, else
    /// none.
    #[arg(short, long, value_name = "TIER", value_delimiter = ',')]
    pub slow: Vec<String>,
    /// Limit of a slow tier, as for --fast: node:1=2GiB or node:1=30%
    ///
    /// What is beyond it goes to the next slower tier.
    #[arg(long, value_name = "TIER=SIZE", value_delimiter = ',', hide_short_help = true)]
    pub limit: Vec<String>,
    /// Share of one core for frostline itself
    ///
    /// Once the program is within its fast memory; until then, see --settling-cpu-limit.
    #[arg(long, value_name = "SHARE", default_value = default::CPU_LIMIT)]
    pub cpu_limit: String,
    /// Share of one core until then, for a minute at most
    #[arg(long, value_name = "SHARE", default_value = default::SETTLING_CPU_LIMIT, hide_short_help = true)]
    pub settling_cpu_limit: String,
    /// Source of samples: pmu, hint-faults, page-tables, damon, page-idle, refaults, or auto
    ///
    /// auto is the best that there is.
    #[arg(long, value_name = "SOURCE", default_value = default::SAMPLES)]
    pub samples: String,
    /// Most bytes per second that the policy may have moved [default: no limit]
    #[arg(long, value_name = "SIZE", hide_short_help = true)]
    pub migration_limit: Option<String>,
    /// Seed of random choices
    #[arg(long, default_value_t = default::SEED, hide_short_help = true)]
    pub seed: u64,
    /// Change nothing: watch, decide, and say what would be moved
    #[arg(short = 'n', long)]
    pub dry_run: bool,
    /// Write all that is decided, and on what grounds, to a file
    ///
    /// `frostline journal verify` repeats the decisions, `frostline trace import` makes a trace of the
    /// samples.
    #[arg(long, value_name = "FILE")]
    pub journal: Option<PathBuf>,
    /// Follow allocations in the extents that the program asked for, by tracepoints, also where
    /// the policy does without; for journals that become traces
    #[arg(long, hide_short_help = true)]
    pub extents: bool,
    #[command(flatten)]
    pub outputs: Outputs,
}

/// Files that numbers are written to.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct Outputs {
    /// Write the numbers of every second to a CSV file
    #[arg(long, value_name = "FILE")]
    pub series: Option<PathBuf>,
    /// Write the final numbers to a file, as JSON
    #[arg(long, value_name = "FILE")]
    pub summary: Option<PathBuf>,
}

impl Tiering {
    /// The options that are asked for.
    ///
    /// # Errors
    /// What cannot be read.
    pub fn options(&self) -> anyhow::Result<Options> {
        let mut options = Options {
            seed: self.seed,
            dry_run: self.dry_run,
            journal: self.journal.clone(),
            extents: self.extents,
            ..Options::default()
        };
        let one = std::slice::from_ref;
        let saved = self.saved()?;
        for (key, words) in [
            ("policy", one(&self.policy)),
            ("slow", &self.slow),
            ("limit", &self.limit),
            ("fast", self.fast.as_slice()),
            ("max_slowdown", self.max_slowdown.as_slice()),
            ("min_fast", self.min_fast.as_slice()),
            ("cpu_limit", one(&self.cpu_limit)),
            ("settling_cpu_limit", one(&self.settling_cpu_limit)),
            ("samples", one(&self.samples)),
            ("migration_limit", self.migration_limit.as_slice()),
        ] {
            let flag = || format!("--{}", key.replace('_', "-"));
            options.set_words(key, words).with_context(flag)?;
        }
        options.set_words("fast", saved.as_slice()).context("--save")?;
        let memory = process::total_memory(&Root::system()).unwrap_or(Bytes::MAX);
        match options.excess(memory) {
            Some(error) => Err(error).context("--save"),
            None => Ok(options),
        }
    }

    /// What `--save` says, as a limit.
    fn saved(&self) -> anyhow::Result<Option<String>> {
        let Some(size) = &self.save else { return Ok(None) };
        let others = [("--fast", self.fast.is_some()), ("--min-fast", self.min_fast.is_some())];
        if let Some((other, _)) = others.iter().find(|(_, given)| *given) {
            let what = format!("--save and {other} both say how much memory is fast");
            return Err(usage(what, "give one of them; --max-slowdown goes with each"));
        }
        let size: Size = size.parse().context("--save")?;
        Ok(Some(format!("all-{}B", size.bytes().0)))
    }

    /// The same with the slow tier chosen where none is named. The text says why.
    ///
    /// # Errors
    /// What cannot be read, or does not exist.
    pub fn resolve(&self, root: &Root) -> anyhow::Result<(Options, Option<String>)> {
        let mut options = self.options()?;
        let why = slow::settle(root, &mut options).context("--limit")?;
        Ok((options, why))
    }
}
