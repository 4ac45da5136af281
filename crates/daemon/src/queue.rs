//! Work queue: actions of the policy that are not carried out yet.

use alloc::collections::VecDeque;
use frostline_core::action::Action;
use frostline_core::types::TierId;

/// Actions in the order in which they are carried out: those that make room wait until all others
/// are done. The engine has reserved room for whatever it wants moved to fast memory, so that
/// these never wait for them, while a thousand demotions in front would keep hot pages slow for as
/// long as they take.
#[derive(Debug, Default)]
pub struct Queue {
    first: VecDeque<Action>,
    demotions: VecDeque<Action>,
}

impl Queue {
    fn of(&mut self, action: &Action) -> &mut VecDeque<Action> {
        match action {
            Action::Migrate { to, .. } if *to != TierId::FAST => &mut self.demotions,
            Action::DemoteFile { .. } => &mut self.demotions,
            _ => &mut self.first,
        }
    }

    /// Appends an action to those of its kind.
    pub fn push(&mut self, action: Action) {
        self.of(&action).push_back(action);
    }

    /// Puts an action back in front of those of its kind.
    pub fn push_front(&mut self, action: Action) {
        self.of(&action).push_front(action);
    }

    /// The action that is next.
    pub fn front(&self) -> Option<&Action> {
        self.first.front().or_else(|| self.demotions.front())
    }

    /// Takes the action that is next.
    pub fn pop(&mut self) -> Option<Action> {
        self.first.pop_front().or_else(|| self.demotions.pop_front())
    }

    /// Actions in it.
    pub fn len(&self) -> usize {
        self.first.len() + self.demotions.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Frees memory that holds nothing.
    pub fn shrink(&mut self) {
        self.first.shrink_to_fit();
        self.demotions.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use frostline_core::action::{Lane, MoveId};
    use frostline_core::types::{PageId, PageRun};

    #[test]
    fn demotions_wait_for_all_others_and_each_kind_keeps_its_order() {
        let migrate = |id, to| {
            let run = PageRun::single(PageId(id as u32));
            Action::Migrate { id: MoveId(id), run, to: TierId(to), lane: Lane::PROMOTE }
        };
        let mut queue = Queue::default();
        for action in [migrate(1, 1), migrate(2, 0), migrate(3, 2), migrate(4, 0)] {
            queue.push(action);
        }
        let mut next = || match queue.pop() {
            Some(Action::Migrate { id, .. }) => id.0,
            other => panic!("{other:?}"),
        };
        assert_eq!([next(), next(), next()], [2, 4, 1]);
        queue.push_front(migrate(5, 1));
        assert!(matches!(queue.front(), Some(Action::Migrate { id: MoveId(5), .. })));
        queue.push(migrate(6, 0));
        let left: alloc::vec::Vec<Action> = core::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(left, [migrate(6, 0), migrate(5, 1), migrate(3, 2)]);
    }
}
