//! Units of a tournament: what is played in one go, a program on a machine with some sizes of fast memory.

use super::families::{Set, Sets};
use super::matrix::Matrix;
use super::results::Settings;
use frostline_sim::FastSize;
use frostline_terminal::errors::usage;
use std::path::Path;

/// A program on a machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Unit {
    /// Set of its family.
    pub set: Set,
    /// Family of the program.
    pub family: String,
    /// The program: a description without seed, or a file.
    pub trace: String,
    /// The machine model, with parameters.
    pub machine: String,
    /// Whether the translation lookaside buffer is modelled.
    pub tlb: bool,
    /// Whether the bound is computed.
    pub bound: bool,
    /// Sizes of fast memory; each is a case.
    pub fast: Vec<FastSize>,
}

/// What plays, of a matrix.
#[derive(Clone, Copy, Debug)]
pub struct Selection<'a> {
    /// Name of the form.
    pub form: &'a str,
    /// Sets of families.
    pub sets: Sets,
    /// Only this family.
    pub family: Option<&'a str>,
    /// Folder of recorded programs.
    pub programs: Option<&'a Path>,
}

/// Units, and what could not be among them.
#[derive(Debug, Default)]
pub struct Units {
    /// In the order of families and blocks.
    pub all: Vec<Unit>,
    /// Recorded programs that are missing.
    pub missing: Vec<String>,
}

impl Units {
    /// What a selection comes to.
    ///
    /// # Errors
    /// A form or family that is not there, or is in another set.
    pub fn of(matrix: &Matrix, selection: &Selection<'_>) -> anyhow::Result<Self> {
        let form = matrix.form(selection.form)?;
        let mut units = Self::default();
        let plays = |(name, set): (&str, Set)| {
            selection.sets.has(set) && selection.family.is_none_or(|family| family == name)
        };
        for (name, family) in &matrix.families {
            if !plays((name, family.set)) {
                continue;
            }
            let (recordings, missing) = family.recorded(selection.programs);
            units.missing.extend(missing.into_iter().map(str::to_owned));
            for block in &form.blocks {
                let generated = block.lengths.iter();
                let generated = generated.flat_map(|len| family.generated(len, &matrix.lengths));
                let recorded = recordings.iter().filter(|_| block.recorded);
                let recorded = recorded.map(|path| path.display().to_string());
                for trace in generated.chain(recorded) {
                    for (machine, &tlb) in
                        block.machines().iter().flat_map(|m| block.tlb.iter().map(move |t| (m, t)))
                    {
                        units.all.push(Unit {
                            set: family.set,
                            family: name.clone(),
                            trace: trace.clone(),
                            machine: machine.clone(),
                            tlb,
                            bound: block.bound,
                            fast: block.sizes()?,
                        });
                    }
                }
            }
        }
        if units.all.is_empty() {
            let known = matrix.families.iter().filter(|(_, of)| selection.sets.has(of.set));
            let known: Vec<&str> = known.map(|(name, _)| name.as_str()).collect();
            let sets = selection.sets.name();
            let what = match selection.family {
                Some(family) => format!("there is no family '{family}' in the set {sets}"),
                None => format!("there is no family in the set {sets}"),
            };
            return Err(usage(what, format!("there are {}", known.join(", "))));
        }
        Ok(units)
    }

    /// Whether families of the held-out set are among them.
    pub fn held_out(&self) -> bool {
        self.all.iter().any(|unit| unit.set == Set::HeldOut)
    }

    /// Cases of all units.
    pub fn cases(&self) -> usize {
        self.all.iter().map(|unit| unit.fast.len()).sum()
    }
}

/// Simulations that a case takes: every rival, with folios and with base pages, on the seeds of choice; then
/// the best of them, the policy and no tiering on other seeds.
pub fn simulations_of_a_case(settings: &Settings) -> usize {
    let forms = if settings.as_is { 1 } else { 2 };
    settings.rivals.len() * forms * settings.choice_seeds as usize
        + 3 * settings.compare_seeds as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selection(form: &str, sets: Sets) -> Selection<'_> {
        Selection { form, sets, family: None, programs: None }
    }

    #[test]
    fn every_unit_can_be_opened() {
        let matrix = Matrix::read(None).expect("it is ours");
        for form in ["quick", "default", "full"] {
            let units = Units::of(&matrix, &selection(form, Sets::All)).expect("there are some");
            let mut traces: Vec<&str> = units.all.iter().map(|unit| &*unit.trace).collect();
            traces.dedup();
            for trace in traces {
                frostline_workloads::from_spec(trace).map(drop).expect(trace);
            }
        }
    }

    #[test]
    fn nobody_looks_at_what_is_held_out_by_accident() {
        let matrix = Matrix::read(None).expect("it is ours");
        let of = |sets| Units::of(&matrix, &selection("quick", sets)).expect("there are some");
        let (development, held_out) = (of(Sets::Development), of(Sets::HeldOut));
        assert!(!development.held_out() && held_out.held_out());
        assert!(held_out.all.iter().all(|unit| unit.set == Set::HeldOut));
        assert_eq!(of(Sets::All).cases(), development.cases() + held_out.cases());
        assert!(development.missing.contains(&"redis".to_owned()));
        let family = Selection { family: Some("scan"), ..selection("quick", Sets::Development) };
        let error = Units::of(&matrix, &family).expect_err("it is held out");
        assert!(frostline_terminal::errors::text(&error).contains("set development"));
    }

    #[test]
    fn recordings_play_in_the_blocks_that_take_them() {
        let matrix = Matrix::read(None).expect("it is ours");
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("redis.flt"), "").expect("written");
        let all = selection("quick", Sets::Development);
        let units = Units::of(&matrix, &Selection { programs: Some(folder.path()), ..all });
        let units = units.expect("there are some");
        let recorded = units.all.iter().filter(|unit| unit.trace.ends_with("redis.flt")).count();
        assert_eq!(recorded, 3, "a machine each");
        assert!(!units.missing.contains(&"redis".to_owned()));
    }
}
