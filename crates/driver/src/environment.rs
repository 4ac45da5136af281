//! Settings of an agent inside of a program, as variables of its environment.

use crate::driver::Options;
use crate::source::choice::Samples;
use crate::tier::{SlowTier, SlowTiers};
use frostline_core::policy::{PolicyError, registry};
use frostline_core::spec::{SpecError, parse_bytes, parse_count, parse_ratio};
use frostline_daemon::Limit;
use std::ffi::CStr;

/// Name of an agent's thread.
pub const AGENT_THREAD: &CStr = c"frostline-agent";
/// Policy, with all its parameters. Without this variable an agent tiers nothing.
pub const POLICY: &str = "FROSTLINE";
/// Fast memory, as [`Limit::parse`] reads it.
pub const FAST: &str = "FROSTLINE_FAST";
/// Slow tiers, separated by commas; `auto` for what the system has.
pub const SLOW: &str = "FROSTLINE_SLOW";
/// Limits of slow tiers, separated by commas.
pub const LIMIT: &str = "FROSTLINE_LIMIT";
/// Share of a core.
pub const CPU_LIMIT: &str = "FROSTLINE_CPU_LIMIT";
/// Share of a core until the limit of fast memory holds.
pub const SETTLING_CPU_LIMIT: &str = "FROSTLINE_SETTLING_CPU_LIMIT";
/// Most bytes per second that the policy may have moved.
pub const MIGRATION_LIMIT: &str = "FROSTLINE_MIGRATION_LIMIT";
/// Source of samples.
pub const SAMPLES: &str = "FROSTLINE_SAMPLES";
/// Seed of random choices.
pub const SEED: &str = "FROSTLINE_SEED";
/// The only swap device that pages shall go to; whoever names it sees to it that it is there.
pub const SWAP_DEVICE: &str = "FROSTLINE_SWAP_DEVICE";
/// Where to write the journal, by its whole path; where there is such a file, its name gets the
/// number of the process.
pub const JOURNAL: &str = "FROSTLINE_JOURNAL";
/// `on`: follow allocations also where the policy does without.
pub const EXTENTS: &str = "FROSTLINE_EXTENTS";
/// `on`, or `off`: what the program forks and executes is not tiered.
pub const CHILDREN: &str = "FROSTLINE_CHILDREN";
/// Hot pages are gathered: `auto`, or from how many of them on a region is dense. Without this variable and
/// [`POLICY`] an agent does nothing.
pub const CONSOLIDATE: &str = "FROSTLINE_CONSOLIDATE";
/// A file that remarks are appended to, instead of the program's standard error.
pub const LOG: &str = "FROSTLINE_LOG";
/// A folder in which every process keeps a file with its numbers.
pub const STATUS: &str = "FROSTLINE_STATUS";
/// All of them.
pub const VARIABLES: [&str; 16] = [
    POLICY,
    FAST,
    SLOW,
    LIMIT,
    CPU_LIMIT,
    SETTLING_CPU_LIMIT,
    MIGRATION_LIMIT,
    SAMPLES,
    SEED,
    SWAP_DEVICE,
    JOURNAL,
    EXTENTS,
    CHILDREN,
    CONSOLIDATE,
    LOG,
    STATUS,
];

/// What holds where a variable is not set, here and on the command line.
pub mod default {
    /// Fast memory.
    pub const FAST: &str = "50%";
    /// Share of one core.
    pub const CPU_LIMIT: &str = "1.5%";
    /// Share of one core until the limit of fast memory holds.
    pub const SETTLING_CPU_LIMIT: &str = "6%";
    /// Source of samples.
    pub const SAMPLES: &str = "auto";
    /// Seed of random choices.
    pub const SEED: u64 = 1;
}

/// A variable says what makes no sense.
#[derive(Debug, thiserror::Error)]
pub enum EnvironmentError {
    /// The policy does not exist, or not so.
    #[error("{POLICY}: {0}")]
    Policy(#[from] PolicyError),
    /// Its text cannot be read.
    #[error("{variable}: {error}")]
    Text {
        /// Its name.
        variable: &'static str,
        /// What is wrong.
        error: SpecError,
    },
    /// A share of 0 %.
    #[error("{variable}: no time at all is left\nhint: give a share such as 1.5%")]
    NoTime {
        /// Its name.
        variable: &'static str,
    },
}

/// The variables that make an agent do what a driver with these options would. A dry run is beyond
/// an agent.
pub fn variables(options: &Options) -> Vec<(&'static str, String)> {
    let limits: Vec<String> = options
        .slow
        .iter()
        .filter_map(|slow| Some(format!("{}={}", slow.tier.name(), slow.limit?)))
        .collect();
    let device = options.swap_device.as_ref().map(|path| path.display().to_string());
    let journal = options.journal.as_ref().map(|path| path.display().to_string());
    let migration = options.migration_bytes_per_second.map(|bytes| bytes.0.to_string());
    let all = [
        (POLICY, Some(options.policy.clone())),
        (FAST, Some(options.fast.to_string())),
        (SLOW, Some(options.slow.to_string())),
        (LIMIT, Some(limits.join(",")).filter(|limits| !limits.is_empty())),
        (CPU_LIMIT, Some(options.cpu_share.to_string())),
        (SETTLING_CPU_LIMIT, Some(options.settling_cpu_share.to_string())),
        (MIGRATION_LIMIT, migration),
        (SAMPLES, Some(options.samples.to_string())),
        (SEED, Some(options.seed.to_string())),
        (SWAP_DEVICE, device),
        (JOURNAL, journal),
        (EXTENTS, options.extents.then(|| "on".into())),
    ];
    all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

/// The options that variables ask for. `choose` gives the slow tier where none is named.
///
/// # Errors
/// Where one of them cannot be read.
pub fn options(
    get: impl Fn(&'static str) -> Option<String>,
    choose: impl FnOnce() -> SlowTier,
) -> Result<Options, EnvironmentError> {
    let policy = get(POLICY).unwrap_or_default();
    registry::check(&policy)?;
    let wrong = |variable| move |error| EnvironmentError::Text { variable, error };
    let list = |variable| {
        let text = get(variable).unwrap_or_default();
        text.split(',').filter(|part| !part.is_empty()).map(str::to_owned).collect::<Vec<_>>()
    };
    let (tiers, limits) = (list(SLOW), list(LIMIT));
    let slow = match &*tiers {
        [] => SlowTiers::new([choose()], &limits).map_err(wrong(LIMIT))?,
        [auto] if auto == "auto" => SlowTiers::new([choose()], &limits).map_err(wrong(LIMIT))?,
        tiers => {
            SlowTiers::parse(tiers, &[""; 0]).map_err(wrong(SLOW))?;
            SlowTiers::parse(tiers, &limits).map_err(wrong(LIMIT))?
        }
    };
    let share = |variable, default: &str| {
        let text = get(variable).unwrap_or_else(|| default.into());
        let share = parse_ratio(&text).map_err(wrong(variable))?;
        if share > 0.0 { Ok(share) } else { Err(EnvironmentError::NoTime { variable }) }
    };
    let text = |variable, default: &str| get(variable).unwrap_or_else(|| default.into());
    let seed = get(SEED).map(|text| parse_count(&text)).transpose().map_err(wrong(SEED))?;
    let limit = get(MIGRATION_LIMIT).map(|text| parse_bytes(&text)).transpose();
    Ok(Options {
        policy,
        slow,
        swap_device: get(SWAP_DEVICE).map(Into::into),
        fast: Limit::parse(&text(FAST, default::FAST)).map_err(wrong(FAST))?,
        cpu_share: share(CPU_LIMIT, default::CPU_LIMIT)?,
        settling_cpu_share: share(SETTLING_CPU_LIMIT, default::SETTLING_CPU_LIMIT)?,
        migration_bytes_per_second: limit.map_err(wrong(MIGRATION_LIMIT))?,
        seed: seed.unwrap_or(default::SEED),
        samples: Samples::parse(&text(SAMPLES, default::SAMPLES)).map_err(wrong(SAMPLES))?,
        dry_run: false,
        journal: get(JOURNAL).map(Into::into),
        extents: get(EXTENTS).as_deref() == Some("on"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use frostline_core::types::Bytes;

    fn read(variables: &[(&'static str, &str)]) -> Result<Options, EnvironmentError> {
        let get = |name| {
            let found = variables.iter().find(|(other, _)| *other == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        options(get, || SlowTier::Swap)
    }

    #[test]
    fn options_survive_the_way_through_the_environment() {
        let slow = SlowTiers::parse(&["node:1", "zram:size=1GiB", "swap"], &["node:1=30%"]);
        let mut all = read(&[(POLICY, "hybridtier:momentum=2")]).unwrap();
        assert_eq!(all.slow.to_string(), "swap", "chosen");
        for (fast, samples) in
            [(Limit::Size(Bytes(77 << 20)), Samples::Auto), (Limit::Share(0.2), Samples::Damon)]
        {
            all.slow = slow.clone().unwrap();
            (all.fast, all.samples, all.seed) = (fast, samples, 12_345);
            (all.cpu_share, all.settling_cpu_share) = (0.015, 0.3);
            all.migration_bytes_per_second = Some(Bytes(5 << 20));
            all.swap_device = Some("/dev/zram3".into());
            all.journal = Some("/tmp/a journal".into());
            all.extents = true;
            let variables = variables(&all);
            let words: Vec<(&'static str, &str)> =
                variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
            assert!(words.iter().all(|(name, _)| VARIABLES.contains(name)));
            assert_eq!(format!("{:?}", read(&words).unwrap()), format!("{all:?}"));
        }
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        for (variable, value) in [
            (POLICY, "hybridtear"),
            (FAST, "0%"),
            (SLOW, "zarm"),
            (LIMIT, "node:7=1GiB"),
            (CPU_LIMIT, "0"),
            (SETTLING_CPU_LIMIT, "much"),
            (MIGRATION_LIMIT, "x"),
            (SAMPLES, "tea"),
            (SEED, "y"),
        ] {
            let policy = [(POLICY, "hybridtier")].into_iter().filter(|_| variable != POLICY);
            let words: Vec<_> = policy.chain([(variable, value)]).collect();
            let error = read(&words).expect_err(variable).to_string();
            assert!(error.starts_with(variable), "{variable}: {error}");
        }
    }
}
