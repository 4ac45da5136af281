//! Picture of all running frostlines, in text, drawn again every second.

mod histogram;
mod picture;

pub use picture::{draw, text};

use frostline_driver::{Rates, Status};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

/// What is drawn.
#[derive(Debug, Default)]
pub struct View {
    /// All drivers, with what they did per second lately.
    pub rows: Vec<(Status, Rates)>,
    /// Which of them is shown in detail.
    pub selected: usize,
}

impl View {
    /// Takes the latest numbers; the one that was selected remains so where it is still there.
    pub fn update(&mut self, all: Vec<Status>) {
        let key = |status: &Status| (status.pid, status.name.clone());
        let selected = self.rows.get(self.selected).map(|(status, _)| key(status));
        let before = std::mem::take(&mut self.rows);
        self.rows = all
            .into_iter()
            .map(|status| {
                let earlier = before.iter().find(|(old, _)| key(old) == key(&status));
                let rates = Rates::next(earlier, &status);
                (status, rates)
            })
            .collect();
        let again = self.rows.iter().position(|(status, _)| Some(key(status)) == selected);
        self.selected = again.unwrap_or(self.selected).min(self.rows.len().saturating_sub(1));
    }

    /// Selects the next one, or the one before.
    pub fn select(&mut self, down: bool) {
        let last = self.rows.len().saturating_sub(1);
        self.selected =
            if down { (self.selected + 1).min(last) } else { self.selected.saturating_sub(1) };
    }
}

/// The picture of what runs now, `width` by `height` characters, where `before` ran a moment ago.
pub fn screen(before: Vec<Status>, now: Vec<Status>, width: u16, height: u16) -> String {
    let mut view = View::default();
    view.update(before);
    view.update(now);
    let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
    draw(&view, buffer.area, &mut buffer);
    text(&buffer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use frostline_core::foreign::leads;
    use frostline_driver::status::{BinStatus, TargetStatus, TierStatus};

    fn status(name: &str, seconds: f64, refaults: u64) -> Status {
        let tier = |name: &str, used_bytes, capacity_bytes| TierStatus {
            name: name.into(),
            used_bytes,
            capacity_bytes,
            ..TierStatus::default()
        };
        let mut status = Status {
            pid: 7,
            name: name.into(),
            policy: "memtis".into(),
            seconds,
            footprint_bytes: 4 << 30,
            tiers: vec![tier("memory", 1 << 30, 2 << 30), tier("swap", 3 << 30, 8 << 30)],
            targets: vec![TargetStatus { pid: 42, comm: "redis-server".into(), mapped_bytes: 0 }],
            saved_bytes: 2 << 30,
            classes: Some([100, 0, 300]),
            cpu_seconds: seconds / 50.0,
            ..Status::default()
        };
        status.accounts.refaults = refaults;
        status.accounts.demotions.verified_bytes = refaults * (1 << 20);
        status
    }

    fn picture_of(view: &View, width: u16, height: u16) -> String {
        let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
        draw(view, buffer.area, &mut buffer);
        super::text(&buffer)
    }

    #[test]
    fn everything_asked_for_is_in_the_picture() {
        let mut view = View::default();
        view.update(vec![status("a", 10.0, 50), status("b", 10.0, 0)]);
        view.update(vec![status("a", 12.0, 250), status("b", 12.0, 0)]);
        let picture = picture_of(&view, 110, 24);
        for part in [
            "a ",
            "b ",
            "redis-server",
            " 100.0 ",
            "100.0 MiB",
            "2.00 GiB",
            "memory",
            "swap",
            "█",
            "25.0 %",
            "2.0 %",
        ] {
            assert!(picture.contains(part), "{part}:\n{picture}");
        }
        let narrow = picture_of(&view, 80, 24);
        assert!(narrow.contains("redis-server") && !narrow.contains("SAVED"), "{narrow}");
        for class in ["hot", "warm", "cold"] {
            assert!(picture.contains(class), "{class}:\n{picture}");
        }
    }

    #[test]
    fn a_process_cannot_draw_by_its_name() {
        let mut hostile = status("a\u{202e}b", 10.0, 0);
        hostile.targets[0].comm = "\x1bc\u{9b}\n".into();
        let mut view = View::default();
        view.update(vec![hostile]);
        let picture = picture_of(&view, 110, 24);
        assert!(picture.contains(r"\u{1b}c\u{9b}\n"), "{picture}");
        assert!(picture.contains(r"a\u{202e}b: memtis"), "{picture}");
        assert!(!picture.chars().any(|c| leads(c) && c != '\n'), "{picture:?}");
    }

    /// 1 GiB in each of three tiers, of which the fast one is the hottest.
    fn with_histogram() -> View {
        let mut status = status("a", 10.0, 50);
        status.tiers.insert(1, TierStatus { name: "node:1".into(), ..status.tiers[1].clone() });
        status.hotness = (0..16_u32)
            .map(|bin| {
                let bytes = [bin >= 12, (6..13).contains(&bin), bin < 8];
                let bytes = bytes.map(|there| u64::from(there) << (12 + bin));
                BinStatus {
                    least: if bin == 0 { 0 } else { 1 << bin },
                    class: ["cold", "warm", "hot"][(bin as usize / 4).saturating_sub(1)].into(),
                    bytes: bytes.iter().sum(),
                    tier_bytes: bytes.to_vec(),
                }
            })
            .collect();
        status.accounts.sampled = 100;
        status.accounts.sampled_fast = 97;
        (status.own_rss_bytes, status.own_limit_bytes) = (9 << 20, 16 << 20);
        let mut view = View::default();
        view.update(vec![status]);
        view
    }

    #[test]
    fn the_histogram_shows_where_hot_and_cold_memory_is() {
        let picture = picture_of(&with_histogram(), 110, 30);
        let expected = "\
memory                                                   ▇▇▇ ▇▇▇ ███ ███ log
node:1                           ▄▄▄ ▄▄▄ ▅▅▅ ▅▅▅ ▆▆▆ ▆▆▆ ▇▇▇
swap     ▁▁▁ ▁▁▁ ▂▂▂ ▂▂▂ ▃▃▃ ▃▃▃ ▄▄▄ ▄▄▄
hotness  0   2   4   8   16  32  64  128 256 512 1k  2k  4k  8k  16k 32k
         cold····························warm············hot············· largest 128.0 MiB
";
        assert!(picture.contains(expected), "{picture}");
        assert!(picture.contains("9.00 MiB of memory, limit 16.0 MiB"), "{picture}");
        assert!(picture.contains("97.0 % of samples hit fast memory"), "{picture}");
        let high = picture_of(&with_histogram(), 110, 40);
        assert!(high.matches('█').count() > picture.matches('█').count(), "{high}");
        assert!(high.contains("hotness  0   2"), "{high}");
    }

    #[test]
    fn the_selected_one_stays_selected() {
        let mut view = View::default();
        view.update(vec![status("a", 1.0, 0), status("b", 1.0, 0)]);
        view.select(true);
        view.select(true);
        assert_eq!(view.selected, 1);
        view.update(vec![status("0", 1.0, 0), status("a", 1.0, 0), status("b", 1.0, 0)]);
        assert_eq!(view.rows[view.selected].0.name, "b");
        view.update(vec![status("a", 2.0, 0)]);
        assert_eq!(view.selected, 0);
        view.select(false);
        view.update(Vec::new());
        assert_eq!(view.selected, 0);
        assert!(picture_of(&view, 80, 24).contains("nothing is managed"));
    }

    #[test]
    fn any_size_can_be_drawn() {
        let mut view = View::default();
        view.update((0..30).map(|i| status(&format!("target-{i}"), 1.0, 0)).collect());
        for (width, height) in [(1, 1), (20, 3), (40, 8), (80, 24), (300, 100)] {
            picture_of(&view, width, height);
        }
        view.selected = 29;
        assert!(picture_of(&view, 100, 24).contains("target-29"));
    }
}
