//! A driver's numbers as text and as a series.

use frostline_driver::Status;
use frostline_driver::status::{Loss, LossStatus, Saving, Unmanaged};
use frostline_report::units::{bytes, percent};
use frostline_terminal::files;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// Seconds over the limit from which on it is worth a word.
const LONG_OVER_LIMIT: f64 = 30.0;

/// Seconds from which on a share of them says something: setting up takes a moment.
const LONG_ENOUGH: f64 = 10.0;

/// Less of a kind that is not managed is not worth a word: every program has some.
const LITTLE_UNMANAGED: u64 = 16 << 20;

/// A control group with less room is as good as full.
const LITTLE_ROOM: u64 = 1 << 20;

/// A few lines about a run.
pub fn text(status: &Status) -> String {
    let size = |n: u64| bytes(n as f64);
    let accounts = &status.accounts;
    let fast = status.tiers.first().cloned().unwrap_or_default();
    let mut text = format!("{}: {} of memory", status.policy, size(status.footprint_bytes));
    let moves = status.tiers.iter().skip(1).any(|tier| tier.capacity_bytes > 0);
    if moves || status.dry_run {
        text += &format!(
            ", {} of it fast (limit {}); {} moved to the slow tier, {} back, {} of them by touch",
            size(fast.used_bytes),
            size(fast.capacity_bytes),
            size(accounts.demoted_bytes()),
            size(accounts.promotions.verified_bytes + accounts.refaults * 4096),
            size(accounts.refaults * 4096),
        );
    } else {
        text += ", which is watched only";
    }
    if status.dry_run {
        text += &format!(
            "\ndry run: the policy wanted {} moved to slow memory, {} back",
            size(accounts.demotions.attempted_bytes),
            size(accounts.promotions.attempted_bytes)
        );
    }
    if accounts.files.verified_bytes > 0 {
        let files = size(accounts.files.verified_bytes);
        text += &format!("\nclosed files: {files} of their pages left fast memory");
    }
    if status.tiers.len() > 2 {
        let tiers = status.tiers.iter().map(|tier| {
            format!("{} {} of {}", tier.name, size(tier.used_bytes), size(tier.capacity_bytes))
        });
        text += &format!("\nby tier: {}", tiers.collect::<Vec<_>>().join(", "));
    }
    if status.compressed_bytes.is_some() {
        text += &format!("\nsaved now: {}", size(status.saved_bytes));
    }
    if let Some(Saving { asked_bytes, slow_bytes, of_all }) = status.saving {
        let whose = if of_all { ", of all targets together" } else { "" };
        text += &format!(
            "\nout of fast memory: {} of {} asked for{whose}",
            size(slow_bytes),
            size(asked_bytes)
        );
    }
    if let Some(loss) = &status.loss {
        text += &format!("\n{}", loss_text(&loss.whole, loss));
    }
    text += &beside(status);
    let cost = match status.seconds >= LONG_ENOUGH {
        true => format!("{} of one core", percent(status.cpu_seconds / status.seconds)),
        false => format!("{:.0} ms of processor time", status.cpu_seconds * 1e3),
    };
    text += &format!(
        "\nown cost: {cost}, {} of memory (limit {})",
        size(status.own_rss_bytes),
        size(status.own_limit_bytes)
    );
    for group in &status.groups {
        if group.swap_room_bytes.is_some_and(|room| room < LITTLE_ROOM) {
            let limit = size(group.swap_limit_bytes.unwrap_or(0));
            text += &format!(
                "\ncontrol group {} has all of the {limit} in swap that it may have",
                group.name
            );
        }
        if group.memory_room_bytes == Some(0) {
            let limit = size(group.memory_limit_bytes.unwrap_or(0));
            text += &format!(
                "\ncontrol group {} has all of the {limit} of memory that it may have",
                group.name
            );
        }
    }
    if status.over_limit_seconds >= LONG_OVER_LIMIT {
        text += &format!(
            "\nover its limit for {:.0} s: it uses more than that all the time, or our share of a \
             core does not suffice\nhint: raise --fast, or --cpu-limit",
            status.over_limit_seconds,
        );
    }
    let lost: u64 = status.sources.iter().map(|source| source.lost).sum();
    if lost > 0 {
        text += &format!("\n{lost} events were lost");
    }
    text
}

/// What is not managed, and what the kernel says of the control group.
fn beside(status: &Status) -> String {
    let Unmanaged { file_bytes, shared_bytes, locked_bytes, reserved_bytes, incompressible_bytes } =
        status.unmanaged;
    let kinds = [
        ("of files", file_bytes),
        ("shared", shared_bytes),
        ("locked", locked_bytes),
        ("reserved huge pages", reserved_bytes),
        ("incompressible", incompressible_bytes),
        ("scattered", status.scattered_bytes),
    ];
    let kinds = kinds.into_iter().filter(|(_, n)| *n >= LITTLE_UNMANAGED);
    let kinds: Vec<String> = kinds.map(|(what, n)| format!("{what} {}", bytes(n as f64))).collect();
    let mut text = String::new();
    if let Some(set) = status.sources.iter().find_map(|source| source.working_set) {
        text += &format!(
            "\nin use: {} of {} in memory, within {:.0} s",
            bytes(set.touched_bytes as f64),
            bytes(set.resident_bytes as f64),
            set.within.as_secs_f64().ceil(),
        );
    }
    if !kinds.is_empty() {
        text += &format!("\nnot managed: {}", kinds.join(", "));
    }
    if let Some(pressure) = status.pressure.filter(|pressure| pressure.some > 0.0) {
        let some = percent(pressure.some);
        text += &format!("\nmemory pressure of its control group: {some} of the last 10 s");
    }
    text
}

/// A sentence about the slowdown of one of the times that `status` is of.
pub fn loss_text(loss: &Loss, status: &LossStatus) -> String {
    let Loss { share, low, high, parts } = *loss;
    let named = [
        ("swap-ins", parts.swap_ins),
        ("loads from slow nodes", parts.slow_loads),
        ("faults", parts.faults),
        ("ours", parts.ours),
    ];
    let named = named.into_iter().filter(|(what, part)| *part > 0.0 || *what == "swap-ins");
    let named: Vec<String> =
        named.map(|(what, part)| format!("{what} {}", percent(part))).collect();
    let about = if status.is_estimate { "about " } else { "" };
    let goal = status.goal.map_or(String::new(), |goal| format!(", of at most {}", percent(goal)));
    format!(
        "slowed down by {about}{}{goal} ({} to {}): {}",
        percent(share),
        percent(low),
        percent(high),
        named.join(", ")
    )
}

/// One line of numbers per second.
pub struct Series {
    file: BufWriter<File>,
    cpu_seconds: f64,
    seconds: f64,
    refaults: u64,
}

impl Series {
    /// A new file with the head line.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn create(path: &Path) -> anyhow::Result<Self> {
        let mut file = BufWriter::new(files::create(path)?);
        writeln!(
            file,
            "seconds,footprint_bytes,fast_bytes,fast_limit_bytes,slow_bytes,saved_bytes,loss,\
             refaults_per_second,demoted_bytes,promoted_bytes,cpu_share,rss_bytes"
        )?;
        Ok(Self { file, cpu_seconds: 0.0, seconds: 0.0, refaults: 0 })
    }

    /// Appends a line.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn add(&mut self, status: &Status) -> anyhow::Result<()> {
        let span = (status.seconds - self.seconds).max(1e-9);
        let fast = status.tiers.first().cloned().unwrap_or_default();
        let accounts = &status.accounts;
        let demoted = accounts.demoted_bytes();
        writeln!(
            self.file,
            "{:.1},{},{},{},{},{},{:.5},{:.0},{demoted},{},{:.4},{}",
            status.seconds,
            status.footprint_bytes,
            fast.used_bytes,
            fast.capacity_bytes,
            status.footprint_bytes - fast.used_bytes,
            status.saved_bytes,
            status.loss.map_or(0.0, |loss| loss.latest.share),
            (accounts.refaults - self.refaults) as f64 / span,
            accounts.promotions.verified_bytes,
            (status.cpu_seconds - self.cpu_seconds) / span,
            status.own_rss_bytes,
        )?;
        self.file.flush()?;
        (self.seconds, self.cpu_seconds) = (status.seconds, status.cpu_seconds);
        self.refaults = accounts.refaults;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use frostline_core::types::Nanos;
    use frostline_driver::groups::GroupStatus;
    use frostline_driver::status::{SourceStatus, WorkingSet};

    #[test]
    fn a_control_group_that_is_full_is_named() {
        let with = |swap_room: u64, memory_room: u64| {
            let group = GroupStatus {
                name: "/a\u{1b}".into(),
                swap_limit_bytes: Some(64 << 20),
                swap_room_bytes: Some(swap_room),
                memory_limit_bytes: Some(96 << 20),
                memory_room_bytes: Some(memory_room),
            };
            text(&Status { groups: vec![group], ..Status::default() })
        };
        assert!(!with(LITTLE_ROOM, 1).contains("control group"));
        let swap = with(LITTLE_ROOM - 1, 1);
        assert!(swap.contains(r"/a\u{1b} has all of the 64.0 MiB in swap"), "{swap}");
        assert!(with(LITTLE_ROOM, 0).contains("all of the 96.0 MiB of memory"));
    }

    #[test]
    fn what_is_not_managed_is_told_by_reason_and_pressure_where_there_is_any() {
        use frostline_driver::status::PressureStatus;
        let unmanaged = Unmanaged {
            file_bytes: LITTLE_UNMANAGED - 1,
            shared_bytes: 64 << 20,
            incompressible_bytes: 1 << 30,
            ..Unmanaged::default()
        };
        let pressure = Some(PressureStatus { some: 0.015, some_seconds: 1.0 });
        let told = text(&Status { unmanaged, pressure, ..Status::default() });
        assert!(
            told.contains("\nnot managed: shared 64.0 MiB, incompressible 1.00 GiB\n"),
            "{told}"
        );
        assert!(told.contains("group: 1.5 % of the last 10 s"), "{told}");
        let told = text(&Status { pressure: Some(PressureStatus::default()), ..Status::default() });
        assert!(!told.contains("not managed") && !told.contains("pressure"), "{told}");
    }

    #[test]
    fn what_is_in_use_is_told_where_all_is_looked_at() {
        let (touched_bytes, resident_bytes) = (3 << 20, 1 << 30);
        let set = WorkingSet { touched_bytes, resident_bytes, within: Nanos(12_000_000_000) };
        let source = SourceStatus { working_set: Some(set), ..SourceStatus::default() };
        let told = text(&Status { sources: vec![source], ..Status::default() });
        assert!(told.contains("\nin use: 3.00 MiB of 1.00 GiB in memory, within 12 s\n"), "{told}");
        assert!(!text(&Status::default()).contains("in use"));
    }

    #[test]
    fn a_limit_that_is_not_kept_is_mentioned_with_a_hint() {
        let with = |over_limit_seconds| text(&Status { over_limit_seconds, ..Status::default() });
        assert!(!with(LONG_OVER_LIMIT - 1.0).contains("hint:"));
        assert!(with(LONG_OVER_LIMIT).contains("over its limit for 30 s"));
    }
}
