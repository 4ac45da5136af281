//! The picture itself.

use super::{Rates, View, histogram};
use crate::live::summary;
use frostline_core::types::PAGE_BYTES;
use frostline_driver::Status;
use frostline_report::units::{self, percent};
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Row, StatefulWidget, Table, TableState, Widget};
use std::collections::BTreeMap;

/// Cells of a full bar.
const BAR: usize = 32;
const HEAD: Style = Style::new().add_modifier(Modifier::BOLD);
pub(super) const DIM: Style = Style::new().fg(Color::DarkGray);

/// Of tiers, the fastest first; the last also for all slower ones.
pub(super) const TIERS: [Color; 4] = [Color::Red, Color::Blue, Color::Cyan, Color::Magenta];
/// Lines of a high screen, on which the histogram gets more of them.
const HIGH: u16 = 36;

pub(super) fn size(bytes: u64) -> String {
    units::bytes(bytes as f64)
}

/// Draws it all.
pub fn draw(view: &View, area: Rect, buffer: &mut Buffer) {
    let rows = if area.height >= HIGH { 3 } else { 1 };
    let selected = view.rows.get(view.selected);
    let details = selected.map_or_else(Vec::new, |(status, rates)| details(status, rates, rows));
    let below = details.len() as u16;
    let parts = [
        Constraint::Length(2),
        Constraint::Min(2),
        Constraint::Length(below),
        Constraint::Length(1),
    ];
    let [top, list, bottom, keys] = Layout::vertical(parts).areas(area);
    Paragraph::new(total(view)).render(top, buffer);
    if view.rows.is_empty() {
        Paragraph::new("nothing is managed").render(list, buffer);
    } else {
        let mut state = TableState::new().with_selected(view.selected);
        StatefulWidget::render(table(view, list.width), list, buffer, &mut state);
    }
    Paragraph::new(details).render(bottom, buffer);
    Paragraph::new(Line::styled("q quit   up/down select", DIM)).render(keys, buffer);
}

/// The picture without colours, for a file or a pipe.
pub fn text(buffer: &Buffer) -> String {
    let area = buffer.area;
    let mut text = String::new();
    for y in area.top()..area.bottom() {
        let cells = (area.left()..area.right()).filter_map(|x| buffer.cell((x, y)));
        let line: String = cells.map(|cell| cell.symbol()).collect();
        text.push_str(line.trim_end());
        text.push('\n');
    }
    let used = text.trim_end().len();
    text.truncate(used);
    text + "\n"
}

fn total(view: &View) -> Line<'static> {
    let sum = |read: fn(&Status) -> u64| view.rows.iter().map(|(status, _)| read(status)).sum();
    let fast = |status: &Status| status.tiers.first().map_or(0, |tier| tier.used_bytes);
    // The sum of nothing is -0.
    let cpu = 0.0 + view.rows.iter().map(|(_, rates)| rates.cpu_share).sum::<f64>();
    // Several targets may have one process.
    let own: BTreeMap<u32, u64> =
        view.rows.iter().map(|(status, _)| (status.pid, status.own_rss_bytes)).collect();
    Line::from(vec![
        Span::styled("frostline", HEAD),
        Span::raw(format!(
            "   memory {}   fast {}   saved {}   own cost {} of a core, {}",
            size(sum(|status| status.footprint_bytes)),
            size(sum(fast)),
            size(sum(|status| status.saved_bytes)),
            percent(cpu),
            size(own.values().sum()),
        )),
    ])
}

/// Columns: heading, width (0 for what is left), and whether it is for wide screens.
const COLUMNS: [(&str, u16, bool); 10] = [
    ("TARGET", 0, false),
    ("PROGRAM", 15, false),
    ("MEMORY", 9, false),
    ("FAST", 9, false),
    ("LIMIT", 9, true),
    ("SAVED", 9, true),
    ("REFAULTS/s", 10, false),
    ("DOWN/s", 9, false),
    ("UP/s", 9, true),
    ("CPU", 6, false),
];
/// Cells of a wide screen.
const WIDE: u16 = 108;

fn table(view: &View, width: u16) -> Table<'static> {
    let shown = |index: &usize| width >= WIDE || !COLUMNS[*index].2;
    let line = |cells: &[String]| {
        let cells = (0..COLUMNS.len()).filter(shown).filter_map(|index| {
            let text = Line::raw(cells.get(index)?.clone());
            Some(if index < 2 { text } else { text.right_aligned() })
        });
        Row::new(cells.collect::<Vec<_>>())
    };
    let rows = view.rows.iter().map(|(status, rates)| {
        let style = if status.targets.is_empty() { DIM } else { Style::new() };
        line(&cells(status, rates)).style(style)
    });
    let widths = (0..COLUMNS.len()).filter(shown).map(|index| match COLUMNS[index].1 {
        0 => Constraint::Fill(1),
        width => Constraint::Length(width),
    });
    Table::new(rows, widths)
        .header(line(&COLUMNS.map(|(head, ..)| head.to_owned())).style(HEAD))
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED))
        .highlight_symbol("> ")
        .column_spacing(1)
}

fn cells(status: &Status, rates: &Rates) -> Vec<String> {
    let fast = status.tiers.first().cloned().unwrap_or_default();
    let program = match status.targets.as_slice() {
        [] => return vec![status.name.to_string(), "waiting".to_owned()],
        [one] => one.comm.to_string(),
        [first, others @ ..] => format!("{} +{}", first.comm, others.len()),
    };
    vec![
        status.name.to_string(),
        program,
        size(status.footprint_bytes),
        size(fast.used_bytes),
        size(fast.capacity_bytes),
        size(status.saved_bytes),
        format!("{:.1}", rates.refaults),
        units::bytes(rates.down_bytes),
        units::bytes(rates.up_bytes),
        percent(rates.cpu_share),
    ]
}

fn details(status: &Status, rates: &Rates, rows: usize) -> Vec<Line<'static>> {
    let moving = if status.dry_run { ", dry run" } else { "" };
    let title = format!("{}: {}{moving}, process {}", status.name, status.policy, status.pid);
    let mut lines = vec![Line::default(), Line::styled(title, HEAD)];
    for (index, tier) in status.tiers.iter().enumerate() {
        let colour = TIERS[index.min(TIERS.len() - 1)];
        let share = tier.used_bytes as f64 / tier.capacity_bytes.max(1) as f64;
        let text = format!("{} of {}", size(tier.used_bytes), size(tier.capacity_bytes));
        lines.push(bar(&tier.name, share, colour, text));
    }
    if let Some(classes) = status.classes {
        let all = classes.iter().sum::<u64>().max(1);
        let names = [("hot", Color::Red), ("warm", Color::Yellow), ("cold", Color::Blue)];
        for ((name, colour), pages) in names.into_iter().zip(classes) {
            let share = pages as f64 / all as f64;
            let text = format!("{}, {}", size(pages.saturating_mul(PAGE_BYTES)), percent(share));
            lines.push(bar(name, share, colour, text));
        }
    }
    lines.extend(histogram::lines(status, rows));
    let accounts = &status.accounts;
    lines.push(Line::raw(format!(
        "moved    by the policy {} down, {} up; to keep the limit {}; to see who comes back {}",
        size(accounts.demotions.verified_bytes),
        size(accounts.promotions.verified_bytes),
        size(accounts.reclaimed.verified_bytes),
        size(accounts.probes.verified_bytes),
    )));
    lines.push(Line::raw(format!(
        "now      {} down, {} up per second; {:.1} refaults per second, {} so far",
        units::bytes(rates.down_bytes),
        units::bytes(rates.up_bytes),
        rates.refaults,
        units::count(accounts.refaults as f64),
    )));
    if let Some(loss) = &status.loss {
        lines.push(Line::raw(format!("loss     {}", summary::loss_text(&loss.latest, loss))));
    }
    let hits = rates.hits.map(|hits| format!("; {} of samples hit fast memory", percent(hits)));
    lines.push(Line::raw(format!(
        "own      {} of memory, limit {}; {} of a core{}",
        size(status.own_rss_bytes),
        size(status.own_limit_bytes),
        percent(rates.cpu_share),
        hits.unwrap_or_default(),
    )));
    let sources = status.sources.iter().map(|source| {
        format!("{} {} ({} lost)", source.name, units::count(source.touches as f64), source.lost)
    });
    lines.push(Line::raw(format!("sources  {}", sources.collect::<Vec<_>>().join(", "))));
    lines
}

fn bar(name: &str, share: f64, colour: Color, text: String) -> Line<'static> {
    let full = ((share * BAR as f64).round() as usize).min(BAR);
    Line::from(vec![
        Span::raw(format!("{name:8} ")),
        Span::styled("█".repeat(full), Style::new().fg(colour)),
        Span::styled("░".repeat(BAR - full), DIM),
        Span::raw(format!("  {text}")),
    ])
}
