//! Forms of a tournament: how long it is, and on what it plays.

use frostline_sim::FastSize;
use frostline_terminal::errors::usage;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Blocks of cases, and how often each is played.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Form {
    /// Seeds on which the best rival of a case is chosen.
    pub choice_seeds: u64,
    /// Other seeds, on which it is compared with the policy.
    pub compare_seeds: u64,
    /// What is played.
    pub blocks: Vec<Block>,
}

/// All combinations of some lengths, machines and sizes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Block {
    /// Lengths of generated programs, by name.
    pub lengths: Vec<String>,
    /// Machine models.
    machines: Vec<String>,
    /// Sizes of fast memory, by the footprint with folios.
    fast: Vec<String>,
    /// Whose processor time background work uses: own, shared.
    #[serde(default = "own")]
    workers: Vec<String>,
    /// With and without the translation lookaside buffer.
    #[serde(default = "on")]
    pub tlb: Vec<bool>,
    /// The bound is computed, too, which takes as long as some runs.
    #[serde(default)]
    pub bound: bool,
    /// Recorded programs play as well.
    #[serde(default)]
    pub recorded: bool,
}

fn own() -> Vec<String> {
    vec!["own".to_owned()]
}

fn on() -> Vec<bool> {
    vec![true]
}

impl Block {
    /// Machines with whose processor time their workers use.
    pub fn machines(&self) -> Vec<String> {
        let with = |workers: &String, machine: &String| match workers.as_str() {
            "own" => machine.clone(),
            other => format!("{machine}:workers={other}"),
        };
        self.workers.iter().flat_map(|w| self.machines.iter().map(move |m| with(w, m))).collect()
    }

    /// Sizes of fast memory.
    ///
    /// # Errors
    /// One that cannot be read.
    pub fn sizes(&self) -> anyhow::Result<Vec<FastSize>> {
        Ok(self.fast.iter().map(|text| text.parse()).collect::<Result<_, _>>()?)
    }
}

impl Form {
    /// Lengths are there, machines and sizes are known, and there are seeds.
    pub fn check(&self, lengths: &BTreeMap<String, String>) -> anyhow::Result<()> {
        if self.choice_seeds.min(self.compare_seeds) == 0 {
            return Err(usage("there are no seeds", "choice-seeds = 1, compare-seeds = 1"));
        }
        for block in &self.blocks {
            if let Some(name) = block.lengths.iter().find(|name| !lengths.contains_key(*name)) {
                let known: Vec<&str> = lengths.keys().map(String::as_str).collect();
                let hint = format!("there are {}", known.join(", "));
                return Err(usage(format!("there is no length '{name}'"), hint));
            }
            block
                .machines()
                .iter()
                .try_for_each(|name| frostline_study::machine(name).map(drop))?;
            if block.sizes()?.is_empty() {
                return Err(usage("a block has no sizes of fast memory", "fast = [\"1:8\"]"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::matrix::Matrix;
    use super::Block;
    use std::collections::BTreeSet;

    #[test]
    fn the_default_form_has_every_size_and_machine_with_and_without_cores_to_spare() {
        let matrix = Matrix::read(None).expect("it is ours");
        let form = matrix.form("default").expect("there");
        let machines: BTreeSet<String> = form.blocks.iter().flat_map(Block::machines).collect();
        assert_eq!(machines.len(), 10, "{machines:?}");
        assert!(machines.contains("hbm-dram:workers=shared"));
        let block = &form.blocks[0];
        assert_eq!(block.fast, ["1:1", "1:2", "1:4", "1:8", "1:16"]);
        assert_eq!((block.machines().len(), &*block.tlb), (5, &[true][..]));
        assert!(form.blocks.iter().any(|block| block.tlb == [false]), "off beside");
        assert!(form.blocks.iter().any(|block| block.fast.contains(&"2MiB".to_owned())));
        for form in ["quick", "full"] {
            assert!(matrix.form(form).expect("there").blocks.len() > 2);
        }
        assert!(matrix.form("endless").is_err());
    }
}
