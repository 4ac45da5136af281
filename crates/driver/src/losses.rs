//! Measures of what targets lose here, and the goal that can be kept to by them.

use crate::error::DriverError;
use crate::options::Options;
use crate::place::Places;
use crate::source::choice::Choice;
use crate::spending::Spending;
use crate::start::Notes;
use frostline_core::policy::{Offer, Origin};
use frostline_core::types::*;
use frostline_daemon::Goal;
use frostline_linux::changes::Changes;
use frostline_linux::process::delays::DelayAccounting;
use frostline_linux::{LinuxError, Root};

/// See the module.
#[derive(Default)]
pub(crate) struct Losses {
    pub(crate) goal: Option<Goal>,
    /// By how much longer a load from slow memory takes (ns), where loads are sampled.
    pub(crate) extra_load_ns: Option<f64>,
    pub(crate) spending: Option<Spending>,
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
        let moves = !options.dry_run && !options.tiers().is_empty();
        let (places, choice, offer) = measured;
        let nodes = (1..places.tiers.len()).any(|tier| places.is_direct(TierId(tier as u8)));
        let sampled = choice.loads.is_some_and(|loads| loads.origin == Origin::Hardware);
        let why = match (moves, nodes && !sampled) {
            (false, _) => Some("nothing is moved, and nothing lost"),
            (true, true) => Some("nobody here counts loads from slow nodes"),
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
                notes.push(format!("fast memory is limited to {}: {why}", options.most_fast()));
            }
        }
        let load = |tier: usize| offer.tiers.get(tier).map(|tier| tier.load_ns);
        let extra = load(1).zip(load(0)).map(|(slow, fast)| (slow - fast).max(0.0));
        let mut losses = Self {
            goal: options.goal().filter(|_| why.is_none()),
            extra_load_ns: extra.filter(|_| nodes && sampled),
            spending: None,
        };
        if moves {
            losses.spending = Some(spending(root, inside, notes));
        }
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
