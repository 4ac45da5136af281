//! Slow memory, as users write it.

use frostline_core::spec::{Spec, SpecError};
use frostline_core::types::{Bytes, MAX_TIERS, PAGE_BYTES, TierId};
use frostline_daemon::Limit;
use std::fmt;
use std::str::FromStr;

/// A tier below the fast one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SlowTier {
    /// A NUMA node.
    Node(u32),
    /// Compressed memory that we set up: `zram:size=4GiB:algorithm=lzo-rle`.
    Zram {
        /// Uncompressed capacity; `None` for as much as the machine has memory.
        size: Option<Bytes>,
        /// Compression; `None` for the kernel's choice.
        algorithm: Option<String>,
        /// What does not fit may go to the swap space that the system has.
        spills: bool,
    },
    /// The swap space that the system has.
    Swap,
    /// None: nothing is moved, everything else works.
    Observe,
}

impl FromStr for SlowTier {
    type Err = SpecError;

    /// Reads `node:1`, `zram:size=4GiB`, `swap` or `none`.
    fn from_str(text: &str) -> Result<Self, SpecError> {
        if let Some(number) = text.strip_prefix("node:") {
            return number.parse().map(Self::Node).map_err(|_| {
                SpecError::new(
                    format!("'{number}' is no number of a node"),
                    "write node:1, for instance; `frostline doctor` lists the nodes",
                )
            });
        }
        let spec = Spec::parse(text)?;
        let mut params = spec.params();
        let tier = match spec.name() {
            "zram" => Self::Zram {
                size: params.bytes("size")?.map(at_least_a_page).transpose()?,
                algorithm: params.text("algorithm").map(str::to_owned),
                spills: false,
            },
            "swap" => Self::Swap,
            "none" => Self::Observe,
            other => {
                return Err(SpecError::unknown(
                    "slow tier",
                    other,
                    &["node:N", "zram", "swap", "none"],
                ));
            }
        };
        params.finish()?;
        Ok(tier)
    }
}

fn at_least_a_page(size: Bytes) -> Result<Bytes, SpecError> {
    if size.0 >= PAGE_BYTES {
        return Ok(size);
    }
    let what = format!("zram: {} bytes are less than a page of memory", size.0);
    Err(SpecError::new(what, "write zram:size=8GiB"))
}

impl SlowTier {
    /// Whether programs cannot load and store in it directly.
    pub fn is_swap(&self) -> bool {
        matches!(self, Self::Zram { .. } | Self::Swap)
    }

    /// Without its parameters: `node:1`, `zram`.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Zram { .. } => "zram".into(),
            other => other.to_string(),
        }
    }
}

impl fmt::Display for SlowTier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(node) => write!(f, "node:{node}"),
            Self::Zram { size, spills, .. } => {
                f.write_str("zram")?;
                size.map_or(Ok(()), |size| write!(f, ":size={}", size.0))?;
                f.write_str(if *spills { ",swap" } else { "" })
            }
            Self::Swap => f.write_str("swap"),
            Self::Observe => f.write_str("none"),
        }
    }
}

/// One of several slow tiers.
#[derive(Clone, Debug, PartialEq)]
pub struct Slow {
    /// Where it is.
    pub tier: SlowTier,
    /// How much of it a target may use; `None` for all that is free.
    pub limit: Option<Limit>,
}

/// The tiers below the fast one, the fastest first; none where nothing is moved.
///
/// Nodes come first, in the order given; after them at most one tier of swap space. The kernel
/// fills swap devices by priority, and nobody can tell it which one a page shall go to: zram and
/// the system's own swap together are therefore one tier, of which zram is filled first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SlowTiers(Vec<Slow>);

impl FromStr for SlowTiers {
    type Err = SpecError;

    /// Reads tiers, the fastest first, such as `node:1,zram:size=4GiB`. Refuses a tier given twice, and one
    /// that cannot follow the one before it.
    fn from_str(text: &str) -> Result<Self, SpecError> {
        let tiers: Result<Vec<SlowTier>, SpecError> = text.split(',').map(str::parse).collect();
        let mut all = Self::NONE;
        let mut nothing = false;
        for tier in tiers? {
            if nothing || (tier == SlowTier::Observe && !all.0.is_empty()) {
                return Err(SpecError::new(
                    "the slow tier 'none' stands beside others",
                    "leave it out, or leave the others out",
                ));
            }
            nothing = tier == SlowTier::Observe;
            if !nothing {
                all.add(tier)?;
            }
        }
        Ok(all)
    }
}

/// Limits of slow tiers, whether there are such tiers or not.
#[derive(Clone, Debug, PartialEq)]
pub struct SlowLimits(Vec<(String, Limit)>);

impl FromStr for SlowLimits {
    type Err = SpecError;

    /// Reads `node:1=2GiB,node:2=30%`.
    fn from_str(text: &str) -> Result<Self, SpecError> {
        let hint = "write TIER=SIZE, such as node:1=2GiB or node:1=30%";
        let limit = |text: &str| {
            let (name, size) = text.rsplit_once('=').ok_or_else(|| {
                SpecError::new(format!("'{text}' is no limit of a slow tier"), hint)
            })?;
            Ok((name.to_owned(), size.parse()?))
        };
        text.split(',').map(limit).collect::<Result<_, _>>().map(Self)
    }
}

impl SlowTiers {
    /// None: nothing is moved.
    pub const NONE: Self = Self(Vec::new());

    /// The same tiers with these limits instead of any others.
    ///
    /// # Errors
    /// Two limits of a tier, and one of a tier that is not there.
    pub fn limited(&self, limits: Option<&SlowLimits>) -> Result<Self, SpecError> {
        let tiers = self.0.iter().map(|slow| Slow { tier: slow.tier.clone(), limit: None });
        let mut all = Self(tiers.collect());
        for (name, limit) in limits.iter().flat_map(|limits| &limits.0) {
            all.set_limit(name, *limit)?;
        }
        Ok(all)
    }

    fn add(&mut self, tier: SlowTier) -> Result<(), SpecError> {
        let name = tier.name();
        if self.0.iter().any(|slow| slow.tier.name() == name) {
            let hint = "name each slow tier once, the fastest first";
            return Err(SpecError::new(format!("the slow tier '{name}' stands there twice"), hint));
        }
        match (self.0.last_mut().map(|slow| &mut slow.tier), &tier) {
            (Some(SlowTier::Zram { spills: spills @ false, .. }), SlowTier::Swap) => {
                *spills = true;
                return Ok(());
            }
            (Some(SlowTier::Swap), SlowTier::Zram { .. }) => {
                return Err(SpecError::new(
                    "zram stands after swap",
                    "zram is filled first: write zram, then swap",
                ));
            }
            (Some(SlowTier::Zram { .. } | SlowTier::Swap), _) => {
                return Err(SpecError::new(
                    format!("the slow tier '{name}' stands after swap space"),
                    "what is in swap comes back when it is touched, so swap is the last tier: \
                     write node:1, then zram",
                ));
            }
            _ => {}
        }
        if self.0.len() + 2 > MAX_TIERS {
            return Err(SpecError::new(
                format!("more than {} slow tiers", MAX_TIERS - 1),
                "leave some out",
            ));
        }
        self.0.push(Slow { tier, limit: None });
        Ok(())
    }

    fn set_limit(&mut self, name: &str, limit: Limit) -> Result<(), SpecError> {
        let spills = |tier: &SlowTier| matches!(tier, SlowTier::Zram { spills: true, .. });
        if let Some(slow) = self.0.iter_mut().find(|slow| slow.tier.name() == name)
            && !spills(&slow.tier)
        {
            if slow.limit.replace(limit).is_some() {
                let what = format!("the slow tier '{name}' has two limits");
                return Err(SpecError::new(what, "leave one out"));
            }
            return Ok(());
        }
        if ["zram", "swap"].contains(&name) && self.0.iter().any(|slow| spills(&slow.tier)) {
            return Err(SpecError::new(
                "zram and swap together are one tier, which the kernel divides",
                "give zram a size instead: zram:size=4GiB",
            ));
        }
        let names: Vec<String> = self.0.iter().map(|slow| slow.tier.name()).collect();
        let known: Vec<&str> = names.iter().map(String::as_str).collect();
        Err(SpecError::unknown("slow tier with a limit", name, &known))
    }

    /// The fastest first.
    pub fn iter(&self) -> std::slice::Iter<'_, Slow> {
        self.0.iter()
    }

    /// Whether there are none: nothing is moved.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The swap space among them.
    pub fn swap(&self) -> Option<&SlowTier> {
        self.0.last().map(|slow| &slow.tier).filter(|tier| tier.is_swap())
    }

    /// The zram device that they need.
    pub fn zram(&self) -> Option<&SlowTier> {
        self.swap().filter(|tier| matches!(tier, SlowTier::Zram { .. }))
    }

    /// Limit of a tier, 1 the first of these.
    pub fn limit(&self, tier: TierId) -> Option<Limit> {
        self.0.get(tier.index().checked_sub(1)?)?.limit
    }
}

impl fmt::Display for SlowTiers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return SlowTier::Observe.fmt(f);
        }
        for (index, slow) in self.0.iter().enumerate() {
            f.write_str(if index > 0 { "," } else { "" })?;
            slow.tier.fmt(f)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiers_are_read_and_written() {
        for text in ["node:1", "zram", "swap", "none", "zram:size=4294967296"] {
            assert_eq!(text.parse::<SlowTier>().unwrap().to_string(), text);
        }
        let zram: SlowTier = "zram:size=4GiB:algorithm=lz4".parse().unwrap();
        assert!(zram.is_swap());
        for bad in ["node:x", "zarm", "zram:sise=1", "swap:size=1", ""] {
            assert!(bad.parse::<SlowTier>().is_err(), "{bad}");
        }
    }

    fn tiers(tiers: &str, limits: &str) -> Result<SlowTiers, SpecError> {
        let limits = Some(limits.replace(' ', ",")).filter(|limits| !limits.is_empty());
        let limits = limits.map(|limits| limits.parse::<SlowLimits>()).transpose()?;
        tiers.replace(' ', ",").parse::<SlowTiers>()?.limited(limits.as_ref())
    }

    #[test]
    fn several_tiers_are_read_in_their_order() {
        let all = tiers("node:2 node:1 zram:size=1GiB", "node:1=2GiB zram=30%").unwrap();
        let names: Vec<String> = all.iter().map(|slow| slow.tier.to_string()).collect();
        assert_eq!(names, ["node:2", "node:1", "zram:size=1073741824"]);
        assert_eq!(all.limit(TierId::FAST), None);
        let limit = |tier| all.limit(TierId(tier)).map(|limit| limit.bytes(Bytes(1000)));
        assert_eq!([limit(1), limit(2), limit(3)], [None, Some(Bytes(2 << 30)), Some(Bytes(300))]);
        assert_eq!(limit(4), None);
        assert!(all.zram().is_some() && tiers("swap", "").unwrap().zram().is_none());
        assert!(tiers("none", "").unwrap().is_empty() && tiers("", "").is_err());
        assert_eq!(tiers("none", "").unwrap().to_string(), "none");
    }

    #[test]
    fn zram_and_swap_are_one_tier() {
        let both = tiers("node:1 zram swap", "node:1=1GiB").unwrap();
        assert_eq!((both.iter().count(), both.to_string()), (2, "node:1,zram,swap".to_owned()));
        assert!(matches!(both.zram(), Some(SlowTier::Zram { spills: true, .. })));
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_a_remedy() {
        for (slow, limits, says, hints) in [
            ("node:1 node:1", "", "twice", "each slow tier once"),
            ("zram zram:size=1GiB", "", "twice", "each slow tier once"),
            ("zram swap swap", "", "after swap", "last tier"),
            ("zram node:1", "", "'node:1' stands after swap", "node:1, then zram"),
            ("swap zram", "", "zram stands after swap", "zram, then swap"),
            ("none zram", "", "beside others", "leave"),
            ("node:1 none", "", "beside others", "leave"),
            ("none none", "", "beside others", "leave"),
            ("zram", "node:1=1GiB", "node:1", "zram"),
            ("node:1", "zram=1GiB", "zram", "node:1"),
            ("node:1", "node:1", "no limit", "node:1=2GiB"),
            ("node:1", "node:1=0%", "0%", "a size"),
            ("node:1", "node:1=1GiB node:1=2GiB", "two limits", "one out"),
            ("zram swap", "zram=1GiB", "one tier", "zram:size=4GiB"),
            ("none", "zram=1GiB", "zram", ""),
        ] {
            let error = tiers(slow, limits).expect_err(slow);
            let hint = error.hint.clone().unwrap_or_default();
            assert!(error.what.contains(says) && hint.contains(hints), "{slow} {limits}: {error}");
        }
        let many: Vec<String> = (1..=8).map(|node| format!("node:{node}")).collect();
        assert!(tiers(&many.join(" "), "").is_err());
        assert!(tiers(&many[..7].join(" "), "").is_ok());
    }
}
