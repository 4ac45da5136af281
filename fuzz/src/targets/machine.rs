//! Machine models: TOML, or one line such as `dram-cxl:mlp=8`.

use crate::target::Target;
use crate::target::texts;
use frostline_sim::Machine;

pub const TARGET: Target = Target {
    name: "machine",
    check: |bytes| {
        let Ok(text) = std::str::from_utf8(bytes) else { return };
        // Files are not to be opened here.
        let is_line = !text.contains(['\n', '/']) && !text.contains(".toml");
        let machine = match is_line {
            true => Machine::parse(text),
            false => Machine::from_toml("input", text),
        };
        let Ok(machine) = machine else { return };
        let shown = machine.to_toml();
        let again = Machine::from_toml("shown", &shown);
        assert_eq!(again.unwrap_or_else(|error| panic!("{error}\n{shown}")), machine, "{shown}");
    },
    seeds: || {
        let names = Machine::presets().map(|(name, _)| name);
        let whole =
            names.map(|name| Machine::parse(name).map_or_else(|_| String::new(), |m| m.to_toml()));
        let mut seeds: Vec<Vec<u8>> = whole.map(String::into_bytes).collect();
        seeds.extend(texts(&[
            "dram-nvm:mlp=8:costs.split_ns=1us",
            "dram-cxl:cores=4:ghz=2.5:ipc=1:thp=off:watermark=0.1:tiers.cxl.read_ns=300:costs.lookup_ns=620",
        ]));
        seeds
    },
    words: &[
        "dram-cxl",
        "dram-nvm",
        "dram-zram",
        ":mlp=",
        ":cores=",
        ":ghz=",
        ":thp=",
        ":workers=",
        "[cpu]\n",
        "[os]\n",
        "[[tiers]]\n",
        "[costs]\n",
        "[tlb]\n",
        "read_ns = ",
        "capacity_bytes = ",
        "inf",
        "nan",
        "1e308",
    ],
};

#[cfg(test)]
mod tests {
    #[test]
    fn every_preset_is_a_seed() {
        assert!((super::TARGET.seeds)().iter().all(|seed| !seed.is_empty()));
    }
}
