//! History of targets: the last hour of each, in bounded memory.

use frostline_driver::{Rates, Status};
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};

/// Milliseconds between two points.
pub const EVERY_MS: u64 = 5000;
/// Points of a target: an hour.
const POINTS: usize = 720;
/// Most targets whose past is kept.
const TARGETS: usize = 128;

/// A moment of a target. Sizes are bytes, shares of 1.
#[derive(Clone, Copy, Debug, Default)]
struct Point {
    at_ms: u64,
    fast: f32,
    limit: f32,
    slow: f32,
    saved: f32,
    /// What it loses; less than 0 where nobody measures that.
    loss: f32,
    swap_ins: f32,
    slow_loads: f32,
    faults: f32,
    ours: f32,
    up: f32,
    down: f32,
    refaults: f32,
    cpu: f32,
}

/// What was kept of a target, by column; all are as long.
#[derive(Debug, Default, Serialize)]
pub struct Columns {
    /// Milliseconds since 1970.
    at_ms: Vec<u64>,
    fast_bytes: Vec<f32>,
    limit_bytes: Vec<f32>,
    slow_bytes: Vec<f32>,
    saved_bytes: Vec<f32>,
    loss: Vec<f32>,
    loss_parts: [Vec<f32>; 4],
    up_bytes: Vec<f32>,
    down_bytes: Vec<f32>,
    refaults: Vec<f32>,
    cpu: Vec<f32>,
}

/// Past of all targets, by key.
#[derive(Debug, Default)]
pub struct History(BTreeMap<String, VecDeque<Point>>);

impl History {
    /// Takes a moment of a target, unless the last one was just before.
    pub fn add(&mut self, key: &str, at_ms: u64, status: &Status, rates: &Rates) {
        if !self.0.contains_key(key) {
            if self.0.len() == TARGETS {
                self.forget_oldest();
            }
            self.0.insert(key.to_owned(), VecDeque::new());
        }
        let Some(points) = self.0.get_mut(key) else { return };
        if points.back().is_some_and(|last| at_ms < last.at_ms + EVERY_MS) {
            return;
        }
        if points.len() == POINTS {
            points.pop_front();
        }
        let fast = status.tiers.first();
        let loss = status.loss.map(|loss| loss.latest);
        let parts = loss.map(|loss| loss.parts).unwrap_or_default();
        points.push_back(Point {
            at_ms,
            fast: fast.map_or(0.0, |tier| tier.used_bytes as f32),
            limit: fast.map_or(0.0, |tier| tier.capacity_bytes as f32),
            slow: frostline_driver::status::slow_bytes(&status.tiers) as f32,
            saved: status.saved_bytes as f32,
            loss: loss.map_or(-1.0, |loss| loss.share as f32),
            swap_ins: parts.swap_ins as f32,
            slow_loads: parts.slow_loads as f32,
            faults: parts.faults as f32,
            ours: parts.ours as f32,
            up: rates.up_bytes as f32,
            down: rates.down_bytes as f32,
            refaults: rates.refaults as f32,
            cpu: rates.cpu_share as f32,
        });
    }

    /// The target that was seen last before all others makes room.
    fn forget_oldest(&mut self) {
        let seen = |points: &VecDeque<Point>| points.back().map_or(0, |point| point.at_ms);
        let oldest = self.0.iter().min_by_key(|(_, points)| seen(points));
        if let Some(key) = oldest.map(|(key, _)| key.clone()) {
            self.0.remove(&key);
        }
    }

    /// Past of a target.
    pub fn of(&self, key: &str) -> Option<Columns> {
        let points = self.0.get(key)?;
        let column = |of: fn(&Point) -> f32| points.iter().map(of).collect();
        Some(Columns {
            at_ms: points.iter().map(|point| point.at_ms).collect(),
            fast_bytes: column(|point| point.fast),
            limit_bytes: column(|point| point.limit),
            slow_bytes: column(|point| point.slow),
            saved_bytes: column(|point| point.saved),
            loss: column(|point| point.loss),
            loss_parts: [
                column(|point| point.swap_ins),
                column(|point| point.slow_loads),
                column(|point| point.faults),
                column(|point| point.ours),
            ],
            up_bytes: column(|point| point.up),
            down_bytes: column(|point| point.down),
            refaults: column(|point| point.refaults),
            cpu: column(|point| point.cpu),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_is_kept_of_each_target() {
        let mut history = History::default();
        let mut status = Status::default();
        for second in 0..2 * 3600 {
            status.saved_bytes = second;
            history.add("a", second * 1000, &status, &Rates::default());
        }
        let columns = history.of("a").expect("it is known");
        assert_eq!(columns.at_ms.len(), POINTS);
        assert_eq!(columns.at_ms[0], (2 * 3600 - 5 * POINTS as u64) * 1000);
        assert!(columns.at_ms.windows(2).all(|pair| pair[1] - pair[0] == EVERY_MS));
        assert_eq!(columns.saved_bytes.last(), Some(&7195.0));
        assert_eq!((columns.loss[0], columns.loss_parts[3].len()), (-1.0, POINTS));
        assert!(history.of("b").is_none());
    }

    #[test]
    fn the_past_of_what_is_gone_makes_room() {
        let mut history = History::default();
        for target in 0..3 * TARGETS as u64 {
            let key = format!("{target}");
            history.add(&key, target, &Status::default(), &Rates::default());
            history.add("always", target * EVERY_MS, &Status::default(), &Rates::default());
        }
        assert_eq!(history.0.len(), TARGETS);
        assert!(history.of("always").is_some() && history.of("0").is_none());
    }
}
