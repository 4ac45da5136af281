//! The grammar of `name:key=value`, and what is said in it: policies, slow tiers, virtual machines.

use crate::target::Target;
use crate::target::texts;
use frostline_core::policy::{Offer, make, registry};
use frostline_core::spec::{self, Spec};
use frostline_core::types::PageCount;
use frostline_driver::{SlowTier, SlowTiers};
use frostline_sim::GuestSetup;

pub const TARGET: Target = Target {
    name: "spec",
    check,
    seeds: || {
        let mut all: Vec<Vec<u8>> = registry::REGISTRY
            .iter()
            .map(|entry| {
                let params =
                    entry.params().map(|param| format!(":{}={}", param.name, param.default));
                format!("{}{}", entry.name, params.collect::<String>()).into_bytes()
            })
            .collect();
        all.extend(texts(&[
            "all",
            "memtis,hybridtier:momentum=2,pet",
            "gpac:cl=auto:window=10s:memory=200%:aged=10%",
            "none:pages=huge",
            "zram:size=4GiB:algorithm=lzo-rle",
            "node:1,zram,swap",
            "cooling=0.1x:adaptation=2000",
        ]));
        all
    },
    words: &[
        ":", "=", ",", "cooling=", "alpha=", "window=", "0.1x", "memtis", "gpac", "zram", "node:",
    ],
};

fn check(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    for parsed in [Spec::parse(text), Spec::parse_params(text)] {
        let Ok(spec) = parsed else { continue };
        assert_eq!(spec.to_string(), text, "it is printed as it was written");
        for (key, value) in spec.pairs() {
            assert_eq!(spec.get(key), Some(value), "keys are given once");
            assert_eq!(spec.with(key, value), spec);
        }
        let longer = spec.with("no-such-key", "1");
        let keys = |spec: &Spec| spec.pairs().count();
        assert_eq!(keys(&longer), keys(&spec) + usize::from(spec.get("no-such-key").is_none()));
    }
    let _ = spec::did_you_mean(text.get(..64).unwrap_or(text), ["memtis", "hybridtier", "x"]);

    let context = Offer {
        fast_pages: PageCount(1 << 12),
        total_pages_hint: PageCount(1 << 15),
        ..Offer::default()
    };
    let (checked, made) = (registry::check(text), make(text, &context));
    // Whoever has checked a text is not surprised later, but for what a policy must know of the future.
    assert!(checked.is_ok() || made.is_err(), "{text} is refused, and made");
    for text in registry::expand(text).iter().flatten() {
        registry::check(text).expect("what a list stands for was checked");
    }

    if let Ok(setup) = GuestSetup::parse(text) {
        assert!(setup.memory >= 1.0 && (0.0..1.0).contains(&setup.aged));
    }
    if let Ok(tier) = text.parse::<SlowTier>() {
        let again = tier.to_string().parse::<SlowTier>().expect("we printed it");
        assert_eq!(again.to_string(), tier.to_string());
    }
    if let Ok(slow) = text.parse::<SlowTiers>() {
        slow.to_string().parse::<SlowTiers>().expect("we printed them");
    }
}
