//! Results of consolidation, as text.

use frostline_core::consolidation::ConsolidationLimit;
use frostline_inprocess::consolidate::Numbers;

/// A few lines.
pub fn text(numbers: &Numbers) -> String {
    let regions = if numbers.of_memory { "regions of memory" } else { "regions of address space" };
    let chosen = match numbers.wanted {
        ConsolidationLimit::Auto => format!("{} (chosen)", numbers.limit),
        ConsolidationLimit::Pages(pages) => pages.to_string(),
    };
    let mut text = format!(
        "{} hot pages; {regions} with any: {} before, {} now; limit {chosen}",
        numbers.hot_pages, numbers.hot_regions_before, numbers.hot_regions_after,
    );
    if let Some(why) = &numbers.refused {
        return format!("no consolidation: {why}");
    }
    if numbers.dry_run {
        return text + &format!("\ndry run: {} pages would be moved", numbers.chosen);
    }
    text += &format!(
        "\n{} pages moved into {} regions, {} of them seen side by side; {} ns a page and {} us a \
         region; a page was away for {} us at most",
        numbers.pages_moved,
        numbers.blocks,
        numbers.pages_verified,
        numbers.ns_per_page(),
        numbers.block_ns.checked_div(numbers.blocks).unwrap_or(0) / 1000,
        numbers.longest_stall_ns / 1000,
    );
    let skipped = numbers.skipped;
    if skipped.all() > 0 {
        let reasons = [
            (skipped.absent, "not in memory"),
            (skipped.shared, "shared or pinned"),
            (skipped.huge, "of huge pages"),
            (skipped.refused, "of mappings that stay"),
            (skipped.busy, "busy"),
        ];
        let reasons = reasons.iter().filter(|(pages, _)| *pages > 0);
        let reasons: Vec<String> = reasons.map(|(n, why)| format!("{n} {why}")).collect();
        text += &format!("\nleft where they were: {}", reasons.join(", "));
    }
    if numbers.blocks_undone > 0 {
        text += &format!("\n{} regions given up: nothing in them was hot", numbers.blocks_undone);
    }
    if numbers.no_memory > 0 {
        text += &format!("\n{} times there was no memory side by side", numbers.no_memory);
    }
    text
}
