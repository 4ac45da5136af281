//! Measures of what targets lose here, and the goal that can be kept to by them.

use crate::error::DriverError;
use crate::interruption;
use crate::options::Options;
use crate::place::Places;
use crate::source::choice::Choice;
use crate::spending::Spending;
use crate::start::Notes;
use frostline_core::policy::{Offer, Origin};
use frostline_core::types::*;
use frostline_daemon::{Goal, INTERRUPTION, NodeLoads};
use frostline_linux::changes::Changes;
use frostline_linux::process::delays::DelayAccounting;
use frostline_linux::{LinuxError, Root};

/// See the module.
#[derive(Default)]
pub(crate) struct Losses {
    pub(crate) goal: Option<Goal>,
    /// Loads from slow nodes, where anything tells of them.
    pub(crate) node_loads: Option<NodeLoads>,
    pub(crate) spending: Option<Spending>,
    /// Time that a running thread loses where a run of its pages is paged out (ns).
    pub(crate) interruption: f64,
}

impl Losses {
    /// Begins to measure what can be measured. Where that does not suffice for a goal that nobody asked for by
    /// name, `options` have a size in its place afterwards. `inside` a program, nothing of the system is changed.
    ///
    /// # Errors
    /// Where a slowdown is to be kept to and cannot be measured.
    pub(crate) fn begin(
        root: &Root,
        options: &mut Options,
        measured: (&Places, &Choice, &Offer),
        inside: bool,
        notes: &mut Notes,
    ) -> Result<Self, DriverError> {
        let moves = options.moves();
        let (places, choice, offer) = measured;
        let nodes = (1..places.tiers.len()).any(|tier| places.is_direct(TierId(tier as u8)));
        let known = choice.loads.and_then(|loads| match loads.origin {
            Origin::Hardware => Some(true),
            Origin::HintFaults | Origin::InTurn | Origin::Sweeps => Some(false),
            Origin::Refaults => None,
        });
        let why = match (moves, nodes && known.is_none()) {
            (false, _) => Some("nothing is moved, and nothing lost"),
            (true, true) => Some("nobody here sees what is touched in slow nodes"),
            (true, false) => None,
        };
        if let Some(why) = why
            && options.goal().is_some()
        {
            let refused = options.without_goal();
            refused.map_err(|error| LinuxError::Unsupported {
                what: format!("{}: {why}", error.what),
                hint: error.hint.unwrap_or_default(),
            })?;
            if moves {
                let fast = options.fast.as_ref().map_or("100%", |fast| fast.text());
                notes.push(format!("fast memory is limited to {fast}: {why}"));
            }
        }
        let load = |tier: usize| offer.tiers.get(tier).map(|tier| tier.load_ns.max(1.0));
        let node_loads = load(0).zip(load(1)).zip(known).map(|((fast_ns, slow), sampled)| {
            NodeLoads { fast_ns, slow_ns: slow.max(fast_ns), sampled }
        });
        let mut losses = Self {
            goal: options.goal().filter(|_| why.is_none()),
            node_loads: node_loads.filter(|_| moves && nodes),
            spending: None,
            interruption: INTERRUPTION,
        };
        if losses.goal.is_some() && losses.node_loads.is_some_and(|loads| !loads.sampled) {
            let text = "what loads from slow nodes cost is estimated from touches of pages, within a factor \
                        of 8 or so: no sampling unit counts them";
            notes.push(text.into());
        }
        if moves && !inside && places.swap().is_some() {
            losses.interruption = interruption::measure(root).unwrap_or(INTERRUPTION);
        }
        losses.spending = Some(match moves {
            true => spending(root, inside, notes),
            // Whoever only watches costs time as well, and no refaults.
            false => Spending::new(root.clone(), None),
        });
        Ok(losses)
    }
}

fn spending(root: &Root, inside: bool, notes: &mut Notes) -> Spending {
    if inside {
        return Spending::new(root.clone(), None);
    }
    let begun = Changes::of_this_process(root).and_then(|changes| DelayAccounting::begin(&changes));
    if let Err(error) = &begun {
        let error = error.to_string().replace('\n', "; ");
        notes.push(format!("what is lost to refaults is estimated by their number: {error}"));
    }
    Spending::new(root.clone(), begun.ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::Place;
    use frostline_core::policy::Sampling;

    /// What becomes of a slowdown between two nodes with samples of that origin, and what is said.
    fn begun(origin: Option<Origin>, asked: Option<&str>) -> (Option<Losses>, Options, String) {
        let mut options = Options::default();
        options.set_words("slow", &["node:1".into()]).unwrap();
        asked.iter().for_each(|text| options.set_words("max_slowdown", &[(*text).into()]).unwrap());
        let tiers = vec![Place::Node(0), Place::Node(1)];
        let places = Places { tiers, device: None, planned: None, frames: None };
        let loads = origin.map(|origin| Sampling { origin, ..Sampling::HARDWARE });
        let choice = Choice { loads, ..Choice::default() };
        let (mut notes, root) = (Notes::new(), Root::system());
        let measured = (&places, &choice, &Offer::default());
        match Losses::begin(&root, &mut options, measured, true, &mut notes) {
            Ok(losses) => (Some(losses), options, notes.join("\n")),
            Err(error) => (None, options, error.to_string()),
        }
    }

    #[test]
    fn a_slowdown_between_nodes_is_kept_to_as_well_as_loads_are_known() {
        for (origin, sampled) in
            [(Origin::Hardware, true), (Origin::HintFaults, false), (Origin::InTurn, false)]
        {
            for (asked, most_loss) in [(None, 0.01), (Some("2%"), 0.02)] {
                let (losses, _, notes) = begun(Some(origin), asked);
                let losses = losses.expect("a goal");
                assert_eq!(losses.goal.map(|goal| goal.most_loss), Some(most_loss), "{origin:?}");
                let known = NodeLoads { fast_ns: 80.0, slow_ns: 300.0, sampled };
                assert_eq!(losses.node_loads, Some(known), "{origin:?}");
                assert_eq!(notes.contains("estimated from touches"), !sampled, "{notes}");
            }
        }
    }

    #[test]
    fn a_slowdown_that_nobody_sees_is_refused_or_gives_way_to_half_of_the_memory() {
        for origin in [None, Some(Origin::Refaults)] {
            let (losses, _, told) = begun(origin, Some("2%"));
            assert!(losses.is_none() && told.contains("nobody here sees"), "{told}");
            assert!(told.contains("hint: give --fast"), "{told}");
            let (losses, options, told) = begun(origin, None);
            assert!(losses.is_some_and(|losses| losses.goal.is_none()), "{told}");
            assert_eq!(options.most_fast(), frostline_daemon::Limit::Share(0.5));
            assert!(told.contains("limited to 50%"), "{told}");
        }
    }
}
