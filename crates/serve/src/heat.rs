//! Heat of a target's memory by address, over the moments of its history.

use frostline_driver::status::HeatStatus;
use serde::Serialize;
use std::collections::VecDeque;

/// See the module. All moments are told by the parts of the latest.
#[derive(Debug, Default, Serialize)]
pub struct Heat {
    /// Processes and addresses at which parts begin, ascending.
    parts: Vec<(u32, u64)>,
    /// Touches in a second of each part, by moment; what exceeds 65535 is told as that.
    touches: VecDeque<Vec<u16>>,
}

impl Heat {
    /// Takes a moment, and forgets the oldest where there are more than `most`.
    pub fn add(&mut self, heat: &[HeatStatus], most: usize) {
        let parts: Vec<(u32, u64)> = heat.iter().map(|part| (part.0, part.1)).collect();
        if parts != self.parts {
            self.divide(parts);
        }
        while self.touches.len() >= most.max(1) {
            self.touches.pop_front();
        }
        self.touches.push_back(heat.iter().map(|part| part.2 as u16).collect());
    }

    /// Tells the past by other parts: each has what the old part had in which it begins.
    fn divide(&mut self, parts: Vec<(u32, u64)>) {
        let old = |part: &(u32, u64)| {
            let after = self.parts.partition_point(|begin| begin <= part);
            let old = after.checked_sub(1)?;
            (self.parts[old].0 == part.0).then_some(old)
        };
        let from: Vec<Option<usize>> = parts.iter().map(old).collect();
        for column in &mut self.touches {
            let touches = |old: &Option<usize>| old.and_then(|old| column.get(old).copied());
            *column = from.iter().map(|old| touches(old).unwrap_or(0)).collect();
        }
        self.parts = parts;
    }

    /// Moments that are kept.
    #[cfg(test)]
    pub fn columns(&self) -> usize {
        self.touches.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_past_is_told_by_the_parts_of_the_present() {
        let mut heat = Heat::default();
        heat.add(&[HeatStatus(1, 0, 5.0), HeatStatus(1, 100, 7.4)], 3);
        heat.add(&[HeatStatus(1, 0, 1e9), HeatStatus(1, 100, -1.0)], 3);
        assert_eq!(heat.touches, [vec![5, 7], vec![65535, 0]]);
        // A part is divided, one comes before all, and another process has one.
        let parts = [(1, 0), (1, 100), (1, 150), (2, 50)];
        let now = parts.map(|(process, address)| HeatStatus(process, address, 1.0));
        heat.add(&now, 3);
        assert_eq!(heat.parts, parts);
        assert_eq!(heat.touches, [vec![5, 7, 7, 0], vec![65535, 0, 0, 0], vec![1; 4]]);
        heat.add(&[], 3);
        assert_eq!(heat.touches.len(), 3);
        assert!(heat.touches.iter().all(Vec::is_empty));
    }
}
