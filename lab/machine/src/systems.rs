//! Systems that place memory in a run.

use anyhow::bail;
use frostline_core::policy::registry;
use frostline_core::types::Bytes;
use frostline_sim::HostedDaemon;

/// Systems that are not ours, and what sets them up.
const KERNEL: &[(&str, &str)] = &[
    ("first-touch", include_str!("../systems/first-touch.sh")),
    ("autonuma", include_str!("../systems/autonuma.sh")),
    ("damon", include_str!("../systems/damon.sh")),
    ("reclaim", include_str!("../systems/reclaim.sh")),
];
const FROSTLINE: &str = include_str!("../systems/frostline.sh");

/// Share of the processor for frostline: no system has a limit. All compete with the program for
/// one processor, and what they take of it is part of the time that the work takes.
const CPU_LIMIT: u32 = 100;

/// Limits that frostline has while the simulator is validated, in per cent of the processor: the
/// second one while the program has more fast memory than it may.
pub const VALIDATED_LIMITS: [u32; 2] = [25, 50];

/// The simulator's daemon with these limits, where the kernel gives so much more of node 0 to new memory than the
/// policy may use.
pub fn validated_daemon(spare: Bytes) -> HostedDaemon {
    let [cpu_share, settling_cpu_share] = VALIDATED_LIMITS.map(|limit| f64::from(limit) / 100.0);
    HostedDaemon { spare, cpu_share, settling_cpu_share, brief: true, goal: None }
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct System {
    /// As users see it: `autonuma`, or a policy of ours with its parameters.
    pub name: String,
    policy: Option<String>,
    setup: &'static str,
    limits: [u32; 2],
}

impl System {
    /// One of the kernel's, or a policy.
    ///
    /// # Errors
    /// Where there is neither of this name.
    pub fn find(name: &str) -> anyhow::Result<Self> {
        let limits = [CPU_LIMIT; 2];
        if let Some((_, setup)) = KERNEL.iter().find(|(known, _)| *known == name) {
            return Ok(Self { name: name.to_owned(), policy: None, setup, limits });
        }
        let policy = name.strip_prefix("frostline:").unwrap_or(name);
        if registry::check(policy).is_err() {
            let known: Vec<&str> = KERNEL.iter().map(|(name, _)| *name).collect();
            bail!(
                "no system '{name}'\nhint: {}, or a policy (`frostline list policies`)",
                known.join(", ")
            );
        }
        let policy = Some(policy.to_owned());
        Ok(Self { name: name.to_owned(), policy, setup: FROSTLINE, limits })
    }

    /// With the limits that the simulator is validated with.
    #[must_use]
    pub fn validated(self) -> Self {
        Self { limits: VALIDATED_LIMITS, ..self }
    }

    /// Whether it is ours.
    pub fn is_ours(&self) -> bool {
        self.policy.is_some()
    }

    /// A script that defines `start`, which sets it up and may set `wrap`, what stands in front
    /// of the program.
    pub fn script(&self, seed: u64) -> String {
        let setup = self.setup;
        match &self.policy {
            None => setup.to_owned(),
            Some(policy) => {
                let [limit, settling] = self.limits;
                format!(
                    "policy='{policy}' cpu_limit={limit}% settling_cpu_limit={settling}% \
                     seed={seed}\n{setup}"
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systems_are_the_kernel_s_or_policies() {
        for (name, _) in KERNEL {
            assert!(!System::find(name).expect("known").is_ours());
        }
        let ours = System::find("memtis:adaptation=1000").expect("a policy");
        assert!(ours.is_ours() && ours.script(3).contains("seed=3"));
        assert!(ours.script(3).contains("settling_cpu_limit=100%"));
        assert!(ours.validated().script(3).contains("cpu_limit=25% settling_cpu_limit=50%"));
        let error = System::find("nothing").expect_err("unknown").to_string();
        assert!(error.contains("hint: first-touch"), "{error}");
    }
}
