//! History of targets: the last hour of each, in bounded memory.

use crate::heat::Heat;
use frostline_driver::status::{Lost, slow_bytes};
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
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Point {
    /// Milliseconds since 1970.
    at_ms: u64,
    fast_bytes: f32,
    limit_bytes: f32,
    slow_bytes: f32,
    saved_bytes: f32,
    /// What it loses; `None` where nobody measures that.
    loss: Option<f32>,
    /// Of that, to swap-ins, loads from slow nodes, faults and us.
    parts: [f32; 4],
    up_bytes: f32,
    down_bytes: f32,
}

impl Point {
    /// Of a target, at a moment.
    pub fn of(at_ms: u64, status: &Status, rates: &Rates) -> Self {
        let fast = status.tiers.first();
        let loss = status.loss.map(|loss| loss.latest);
        let parts = loss.map(|loss| loss.parts).unwrap_or_default();
        let Lost { swap_ins, slow_loads, faults, ours } = parts;
        Self {
            at_ms,
            fast_bytes: fast.map_or(0.0, |tier| tier.used_bytes as f32),
            limit_bytes: fast.map_or(0.0, |tier| tier.capacity_bytes as f32),
            slow_bytes: slow_bytes(&status.tiers) as f32,
            saved_bytes: status.saved_bytes as f32,
            loss: loss.map(|loss| loss.share as f32),
            parts: [swap_ins, slow_loads, faults, ours].map(|part| part as f32),
            up_bytes: rates.up_bytes as f32,
            down_bytes: rates.down_bytes as f32,
        }
    }
}

/// Past of a target.
#[derive(Debug, Default)]
pub struct Past {
    /// Moments, the oldest first.
    pub points: VecDeque<Point>,
    /// Where its memory was touched at these moments.
    pub heat: Heat,
}

impl Past {
    fn seen(&self) -> u64 {
        self.points.back().map_or(0, |point| point.at_ms)
    }
}

/// Past of all targets, by key.
#[derive(Debug, Default)]
pub struct History(BTreeMap<String, Past>);

impl History {
    /// Takes a moment of a target, unless the last one was just before.
    pub fn add(&mut self, key: &str, point: Point, status: &Status) {
        if !self.0.contains_key(key) {
            if self.0.len() == TARGETS {
                self.forget_oldest();
            }
            self.0.insert(key.to_owned(), Past::default());
        }
        let Some(past) = self.0.get_mut(key) else { return };
        if past.points.back().is_some_and(|last| point.at_ms < last.at_ms + EVERY_MS) {
            return;
        }
        if past.points.len() == POINTS {
            past.points.pop_front();
        }
        past.points.push_back(point);
        past.heat.add(&status.heat, POINTS);
    }

    /// The target that was seen last before all others makes room.
    fn forget_oldest(&mut self) {
        let oldest = self.0.iter().min_by_key(|(_, past)| past.seen());
        if let Some(key) = oldest.map(|(key, _)| key.clone()) {
            self.0.remove(&key);
        }
    }

    /// Past of a target.
    pub fn of(&self, key: &str) -> Option<&Past> {
        self.0.get(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use frostline_driver::status::HeatStatus;

    #[test]
    fn an_hour_is_kept_of_each_target() {
        let mut history = History::default();
        let mut status = Status::default();
        for second in 0..2 * 3600 {
            status.saved_bytes = second;
            status.heat = vec![HeatStatus(1, 0, second as f32)];
            history.add("a", Point::of(second * 1000, &status, &Rates::default()), &status);
        }
        let past = history.of("a").expect("it is known");
        let points = &past.points;
        assert_eq!(past.heat.columns(), POINTS);
        assert_eq!(points.len(), POINTS);
        assert_eq!(points[0].at_ms, (2 * 3600 - 5 * POINTS as u64) * 1000);
        let times: Vec<u64> = points.iter().map(|point| point.at_ms).collect();
        assert!(times.windows(2).all(|pair| pair[1] - pair[0] == EVERY_MS));
        assert_eq!(points.back().map(|point| point.saved_bytes), Some(7195.0));
        assert_eq!((points[0].loss, points[0].parts.len()), (None, 4));
        assert!(history.of("b").is_none());
    }

    #[test]
    fn the_past_of_what_is_gone_makes_room() {
        let mut history = History::default();
        for target in 0..3 * TARGETS as u64 {
            let key = format!("{target}");
            let status = Status::default();
            let point = |at_ms| Point::of(at_ms, &status, &Rates::default());
            history.add(&key, point(target), &status);
            history.add("always", point(target * EVERY_MS), &status);
        }
        assert_eq!(history.0.len(), TARGETS);
        assert!(history.of("always").is_some() && history.of("0").is_none());
    }
}
