use super::*;
use crate::{Pass, machine};
use std::sync::Mutex;

/// Notes which passes are made over the trace.
#[derive(Default)]
struct Passes(Mutex<Vec<String>>);

impl Passes {
    fn of(&self, what: &str) -> usize {
        self.0.lock().unwrap().iter().filter(|pass| pass.starts_with(what)).count()
    }
}

impl Monitor for Passes {
    fn pass<'a>(&'a self, what: &str, _: &str, _: Option<u64>) -> Box<dyn Pass + 'a> {
        self.0.lock().unwrap().push(what.to_owned());
        Box::new(crate::Unwatched)
    }
    fn note(&self, _: &str) {}
    fn stops(&self) -> bool {
        false
    }
}

fn question(of: &str, policies: &[&str]) -> Question {
    let options = SimOptions::new(machine(of).expect("it is listed"), FastSize::Percent(100.0));
    Question {
        goals: vec![0.02, 0.1],
        policies: policies.iter().map(|policy| (*policy).to_owned()).collect(),
        extent: Extent::All,
        jobs: Some(2),
        options,
    }
}

#[test]
fn a_trace_is_made_and_measured_once_for_all_machines_and_policies() {
    let passes = Passes::default();
    let name = "synth:zipf:pages=16K:accesses=2M";
    let mut trace = Trace::open(name, Limit::default(), &passes).expect("a trace");
    let policies = [registry::DEFAULT, registry::FIRST_TOUCH];
    for of in ["dram-cxl", "dram-nvm"] {
        let question = question(of, &policies);
        let advice = advise(&mut trace, &question, &passes).expect("it can be advised on");
        let asked: Vec<&str> = advice.iter().map(|advice| &*advice.policy).collect();
        assert_eq!(asked, policies);
        for (index, advice) in advice.iter().enumerate() {
            // All fast once, whatever the number of policies.
            let all_fast = usize::from(index == 0);
            assert_eq!(advice.replays, advice.curve.points().len() + all_fast);
            assert!(advice.footprint_bytes > 60 << 20);
            assert!(advice.answers.iter().all(|answer| answer.interval.is_some()), "{advice:?}");
        }
    }
    assert_eq!((passes.of("generating"), passes.of("measuring")), (1, 1));
    assert!(passes.of("simulating") >= 8, "rounds of four pairs");
}

#[test]
fn a_part_is_drawn_once() {
    let passes = Passes::default();
    let name = "synth:zipf:pages=128K:accesses=1M";
    let mut trace = Trace::open(name, Limit::default(), &passes).expect("a trace");
    for of in ["dram-cxl", "dram-nvm"] {
        let question = Question { extent: Extent::Part, ..question(of, &[registry::DEFAULT]) };
        let advice = advise(&mut trace, &question, &passes).expect("it can be advised on");
        assert!(advice[0].part.is_some_and(|part| (0.3..0.5).contains(&part)), "{advice:?}");
    }
    assert_eq!(passes.of("drawing"), 1);
}

#[test]
fn answers_are_where_all_larger_sizes_are_enough() {
    let mut trace =
        Trace::open("synth:hotcold:pages=16K:accesses=2M", Limit::default(), &Passes::default())
            .expect("a trace");
    let question = question("dram-cxl", &[registry::FIRST_TOUCH]);
    let advice = advise(&mut trace, &question, &Passes::default()).expect("it can be advised on");
    for answer in &advice[0].answers {
        let Some(size) = answer.size else { continue };
        let points = advice[0].curve.points();
        assert!(points.iter().all(|(share, loss)| *share < size || *loss <= answer.goal));
        assert!(points.iter().any(|(share, loss)| *share < size && *loss > answer.goal));
    }
    assert!(advice[0].answers.iter().any(|answer| answer.size.is_some()), "{advice:?}");
}
