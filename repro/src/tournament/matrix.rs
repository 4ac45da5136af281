//! Matrix of a tournament, from a file.

use super::families::Family;
use super::forms::Form;
use anyhow::Context;
use frostline_core::policy::registry;
use frostline_terminal::errors::usage;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

/// The matrix that comes with the program.
const BUILT_IN: &str = include_str!("../../tournament.toml");

/// What plays on what.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Matrix {
    /// Published policies and groups of them, separated by commas.
    rivals: String,
    /// Parameters of generated programs by the name of a length.
    pub lengths: BTreeMap<String, String>,
    /// What is played, by name.
    forms: BTreeMap<String, Form>,
    /// Programs that are alike, by name.
    pub families: BTreeMap<String, Family>,
}

impl Matrix {
    /// Reads a file, or takes the matrix that comes with the program.
    ///
    /// # Errors
    /// A file that cannot be read, has something else in it, or has a program in two families.
    pub fn read(path: Option<&Path>) -> anyhow::Result<Self> {
        let named =
            || path.map_or_else(|| "tournament.toml".to_owned(), |p| p.display().to_string());
        let text = match path {
            None => BUILT_IN.to_owned(),
            Some(path) => std::fs::read_to_string(path).with_context(named)?,
        };
        let matrix: Self = toml::from_str(&text).with_context(named)?;
        matrix.check().with_context(named)?;
        Ok(matrix)
    }

    /// Rivals of a policy: published policies, each once, without itself.
    ///
    /// # Errors
    /// One that is not known.
    pub fn rivals(&self, policy: &str) -> anyhow::Result<Vec<String>> {
        let mut rivals = registry::expand(&self.rivals)?;
        rivals.retain(|rival| rival != policy);
        Ok(rivals)
    }

    /// The form of that name.
    ///
    /// # Errors
    /// One that is not there.
    pub fn form(&self, name: &str) -> anyhow::Result<&Form> {
        self.forms.get(name).ok_or_else(|| {
            let known: Vec<&str> = self.forms.keys().map(String::as_str).collect();
            usage(format!("there is no form '{name}'"), format!("there are {}", known.join(", ")))
        })
    }

    /// Where each program, by the name of its generator or recording, has its family.
    fn homes(&self) -> impl Iterator<Item = (String, &str)> {
        self.families.iter().flat_map(|(family, of)| {
            of.names().into_iter().map(move |name| (name, family.as_str()))
        })
    }

    /// Every program is known and of one family only, every length is there.
    fn check(&self) -> anyhow::Result<()> {
        let mut homes: BTreeMap<String, &str> = BTreeMap::new();
        for (name, family) in self.homes() {
            if let Some(other) = homes.insert(name.clone(), family).filter(|other| *other != family)
            {
                let what = format!("{name} is in two families: {other} and {family}");
                return Err(usage(what, "leave it in the one whose programs it is like"));
            }
        }
        for of in self.families.values() {
            of.check()?;
        }
        for (name, form) in &self.forms {
            form.check(&self.lengths).with_context(|| format!("form {name}"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::families::Set;
    use super::*;
    use frostline_workloads::GENERATORS;
    use std::collections::BTreeSet;

    #[test]
    fn every_generator_is_in_one_family_and_so_in_one_set() {
        let matrix = Matrix::read(None).expect("it is ours");
        for generator in GENERATORS {
            let of = matrix.families.values();
            let homes = of.filter(|family| family.names().contains(generator.name)).count();
            assert_eq!(homes, 1, "{}", generator.name);
        }
        let of = |set| matrix.families.values().filter(|family| family.set == set).count();
        assert!(of(Set::Development) > 5 && of(Set::HeldOut) > 5);
    }

    #[test]
    fn what_was_tuned_on_is_not_held_out() {
        let matrix = Matrix::read(None).expect("it is ours");
        let tuned = "zipf hotcold shift masim ycsb-a ycsb-b ycsb-c btree tpcc cachelib-cdn graph500 xgboost";
        for program in tuned.split(' ') {
            let family = matrix.families.values().find(|family| family.names().contains(program));
            assert_eq!(family.expect(program).set, Set::Development, "{program}");
        }
    }

    #[test]
    fn every_program_that_can_be_recorded_has_a_family() {
        let matrix = Matrix::read(None).expect("it is ours");
        let known: BTreeSet<String> = matrix.homes().map(|(name, _)| name).collect();
        let recordings: BTreeSet<&str> =
            known.iter().filter_map(|name| name.strip_suffix(".flt")).collect();
        let made: BTreeSet<&str> =
            crate::validate::programs::ALL.iter().map(|program| program.recording).collect();
        assert_eq!(recordings, made);
    }

    #[test]
    fn a_recording_is_in_the_family_of_the_generator_that_stands_for_it() {
        let matrix = Matrix::read(None).expect("it is ours");
        for program in crate::validate::programs::ALL {
            let recording = format!("{}.flt", program.recording);
            let home = |name: &str| matrix.homes().find(|(known, _)| known == name).map(|of| of.1);
            assert_eq!(home(program.name), home(&recording), "{recording}");
        }
    }

    #[test]
    fn rivals_are_published_and_not_the_policy_itself() {
        let matrix = Matrix::read(None).expect("it is ours");
        let rivals = matrix.rivals("frost").expect("known");
        assert!(rivals.len() > 15 && !rivals.contains(&"frost".to_owned()));
        assert!(rivals.iter().any(|rival| rival == registry::FIRST_TOUCH));
        assert!(!matrix.rivals("memtis").expect("known").contains(&"memtis".to_owned()));
    }

    #[test]
    fn a_program_in_two_families_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("m.toml");
        let refused = |families: &str| {
            let text = format!("rivals = \"memtis\"\n[lengths]\n[forms]\n{families}");
            std::fs::write(&path, text).expect("written");
            let error = Matrix::read(Some(&path)).expect_err(families);
            frostline_terminal::errors::text(&error)
        };
        let two = "[families.a]\nset = \"development\"\nprograms = [\"zipf\"]\n\
                   [families.b]\nset = \"held-out\"\nprograms = [\"zipf:s=2\"]\n";
        let text = refused(two);
        assert!(text.contains("zipf is in two families") && text.contains("hint:"), "{text}");
        let unknown = "[families.a]\nset = \"development\"\nprograms = [\"zopf\"]\n";
        assert!(refused(unknown).contains("zopf"));
        assert!(refused("[families.a]\nset = \"mine\"\nprograms = []\n").contains("set"));
    }
}
