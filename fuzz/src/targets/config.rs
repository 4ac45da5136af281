//! Files that users write: the daemon's configuration, and experiments.

use crate::target::Target;
use crate::target::texts;
use frostline_cli::readers::Config;
use frostline_driver::SlowTier;
use frostline_repro::readers::Experiment;

pub const DAEMON: Target = Target {
    name: "config",
    check: |bytes| {
        let Ok(text) = std::str::from_utf8(bytes) else { return };
        let Ok(config) = Config::parse("input", text) else { return };
        let shown = toml::to_string(&config).expect("it was TOML before");
        let again = Config::parse("shown", &shown);
        assert_eq!(again.unwrap_or_else(|error| panic!("{error}\n{shown}")), config, "{shown}");
        let _ = config.daemon.total();
        for target in &config.targets {
            let _ = (target.selection(), target.options.clone().settle(|| SlowTier::Swap));
        }
    },
    seeds: || {
        texts(&[
            include_str!("../../../configs/frostline.toml"),
            "[daemon]\nfast = \"4GiB\"\n[metrics]\nlisten = \"127.0.0.1:9177\"\ntextfile = \"/a/b\"\n[[target]]\n\
             name = \"a\"\npid = 9\nslow = [\"node:1\", \"zram:size=1GiB:algorithm=zstd\"]\n\
             limit = [\"node:1=30%\"]\npriority = 7\nsamples = \"damon\"\nmigration_limit = \"1MiB\"\n[[target]]\n\
             name = \"b\"\ncgroup = \"x.slice\"\nfast = \"1:4\"\npolicy = \"hybridtier:momentum=2\"\n\
             children = false\ndry_run = true\ncpu_limit = \"2%\"\nsettling_cpu_limit = \"1/10\"\n",
        ])
    },
    words: &[
        "[[target]]\n",
        "name = \"",
        "pid = ",
        "cgroup = \"",
        "command = \"",
        "fast = \"",
        "slow = ",
        "limit = ",
        "priority = ",
        "policy = \"",
        "samples = \"",
        "[daemon]\n",
        "[metrics]\n",
        "listen = \"",
        "node:1",
        "zram",
        "swap",
        "none",
        "migration_limit = \"",
        "cpu_limit = \"",
        "40%",
        "1:4",
    ],
};

pub const EXPERIMENT: Target = Target {
    name: "experiment",
    check: |bytes| {
        let Ok(text) = std::str::from_utf8(bytes) else { return };
        let Ok(experiment) = Experiment::parse("input", text) else { return };
        assert!(!experiment.machines().is_empty());
        let _ = (experiment.sizes(), experiment.guests(), experiment.labels());
        let _ = experiment.series_points();
        if let Ok(policies) = experiment.policies() {
            let _ = experiment.check(&policies);
        }
    },
    seeds: || {
        texts(&[
            include_str!("../../../experiments/gpac-fig13.toml"),
            include_str!("../../../experiments/hotbox-fig8.toml"),
            include_str!("../../../experiments/hybridtier-fig12.toml"),
        ])
    },
    words: &[
        "[[workload]]\n",
        "[[result]]\n",
        "[[chart]]\n",
        "[[map]]\n",
        "[[heatmap]]\n",
        "name = \"",
        "fast = [\"",
        "policies = [\"",
        "trace = \"",
        "measure = \"",
        "of = \"",
        "over = \"",
        "paper = ",
        "machines = [\"",
        "1:8",
        "synth:zipf:pages=1K",
        "programs = ",
        "values = [",
        "since = ",
        "changes = ",
    ],
};
