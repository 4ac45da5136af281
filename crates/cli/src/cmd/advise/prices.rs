//! Prices of memory.

use frostline_core::spec::SpecError;
use frostline_sim::Machine;
use frostline_terminal::errors::usage;
use std::str::FromStr;

const GIB: f64 = (1u64 << 30) as f64;

/// Price of a GiB of a tier.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Price {
    tier: String,
    per_gib: f64,
}

impl FromStr for Price {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let price = text.split_once('=').and_then(|(tier, price)| {
            let per_gib =
                price.parse().ok().filter(|price: &f64| *price >= 0.0 && price.is_finite())?;
            Some(Self { tier: tier.to_owned(), per_gib })
        });
        price.ok_or_else(|| SpecError::new(format!("'{text}' is no price"), "write dram=4,cxl=1.5"))
    }
}

/// Prices of a GiB in the first and the last tier.
#[derive(Clone, Copy)]
pub(super) struct Prices {
    fast: f64,
    slow: f64,
}

impl Prices {
    /// Those of a machine; none where none are given.
    pub(super) fn of(machine: &Machine, given: &[Price]) -> anyhow::Result<Option<Self>> {
        let (fast, slow) = (&machine.tiers[0].name, &machine.tiers[machine.tiers.len() - 1].name);
        Self::of_names([fast, slow], &machine.name, given)
    }

    /// Those of a fast and a slow tier of a machine.
    pub(super) fn of_names(
        [fast, slow]: [&str; 2],
        machine: &str,
        given: &[Price],
    ) -> anyhow::Result<Option<Self>> {
        if given.is_empty() {
            return Ok(None);
        }
        let price = |tier: &str| {
            let price = given.iter().find(|price| price.tier == tier).map(|price| price.per_gib);
            price.ok_or_else(|| {
                let what = format!("--price says nothing of {tier}, a tier of {machine}");
                usage(what, format!("add {tier}=PRICE"))
            })
        };
        Ok(Some(Self { fast: price(fast)?, slow: price(slow)? }))
    }

    /// What is saved where that share of a footprint is fast.
    pub(super) fn saved(self, footprint: u64, share: f64) -> f64 {
        (self.fast - self.slow) * (1.0 - share) * footprint as f64 / GIB
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use frostline_study::machine;

    #[test]
    fn prices_are_of_tiers_that_there_are() {
        assert_eq!("dram=4".parse(), Ok(Price { tier: "dram".into(), per_gib: 4.0 }));
        for bad in ["dram", "dram=", "dram=-1", "dram=x", "dram=inf"] {
            assert!(bad.parse::<Price>().is_err(), "{bad}");
        }
        let cxl = machine("dram-cxl").expect("it is listed");
        let given = |text: &str| -> Vec<Price> { text.split(',').flat_map(str::parse).collect() };
        assert!(Prices::of(&cxl, &[]).expect("none is asked for").is_none());
        let error = Prices::of(&cxl, &given("dram=4")).err().expect("one is missing").to_string();
        assert!(error.contains("cxl"), "{error}");
        let prices = Prices::of(&cxl, &given("dram=4,cxl=1.5")).expect("both").expect("both");
        assert_eq!(prices.saved(8 << 30, 0.25), 15.0);
    }
}
