//! Numbers for Prometheus in the text format of OpenMetrics 1.0: base units, counters end in `_total`.

pub mod server;
#[cfg(test)]
mod tests;

use frostline_core::types::PAGE_BYTES;
use frostline_driver::Account;
use frostline_driver::Status;
use frostline_driver::status::{Lost, Unmanaged};
use frostline_linux::process::clock;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use std::fmt;

/// Type of the page's content.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// What a counter's name ends with; the encoder adds it.
const TOTAL: &str = "_total";
/// Whole numbers below are exact.
const MOST_WHOLE: f64 = (1u64 << f64::MANTISSA_DIGITS) as f64;

/// What one number is about, beside the target.
type Labels<'a> = &'a [(&'a str, &'a str)];
/// Takes the numbers of a family.
type Sink<'a> = &'a mut dyn FnMut(Labels, f64);

/// Numbers of one name.
struct Family {
    name: &'static str,
    kind: MetricType,
    help: &'static str,
    read: fn(&Status, Sink),
}

const fn gauge(name: &'static str, help: &'static str, read: fn(&Status, Sink)) -> Family {
    Family { name, kind: MetricType::Gauge, help, read }
}

const fn counter(name: &'static str, help: &'static str, read: fn(&Status, Sink)) -> Family {
    Family { name, kind: MetricType::Counter, help, read }
}

/// All that is told of a target; docs/reference/metrics.md repeats it.
const FAMILIES: &[Family] = &[
    gauge("frostline_processes", "Processes that are managed.", |s, to| {
        to(&[], s.targets.len() as f64);
    }),
    gauge("frostline_refused_processes", "Processes that are left alone.", |s, to| {
        to(&[], s.refused.len() as f64);
    }),
    gauge("frostline_memory_bytes", "Memory of the target by tier.", |s, to| {
        s.tiers.iter().for_each(|tier| to(&[("tier", &tier.name)], tier.used_bytes as f64));
    }),
    gauge("frostline_memory_limit_bytes", "What the target may use of a tier.", |s, to| {
        s.tiers.iter().for_each(|tier| to(&[("tier", &tier.name)], tier.capacity_bytes as f64));
    }),
    gauge("frostline_saved_bytes", "Paged out, less what zram takes for it.", |s, to| {
        to(&[], s.saved_bytes as f64);
    }),
    gauge("frostline_saving_asked_bytes", "Memory that shall be in slow tiers.", |s, to| {
        s.saving.iter().for_each(|saving| to(&[], saving.asked_bytes as f64));
    }),
    gauge("frostline_unmanaged_bytes", "Memory that is not moved, by reason.", |s, to| {
        let Unmanaged {
            file_bytes,
            shared_bytes,
            locked_bytes,
            reserved_bytes,
            incompressible_bytes,
        } = s.unmanaged;
        for (reason, bytes) in [
            ("file", file_bytes),
            ("shared", shared_bytes),
            ("locked", locked_bytes),
            ("reserved", reserved_bytes),
            ("incompressible", incompressible_bytes),
        ] {
            to(&[("reason", reason)], bytes as f64);
        }
    }),
    gauge("frostline_working_set_bytes", "Memory that was in use of late.", |s, to| {
        let sets = s.sources.iter().filter_map(|source| source.working_set);
        sets.for_each(|set| to(&[], set.touched_bytes as f64));
    }),
    counter(
        "frostline_pressure_seconds_total",
        "Time in which a task of the control group waited for memory.",
        |s, to| {
            s.pressure.iter().for_each(|pressure| to(&[], pressure.some_seconds));
        },
    ),
    gauge(
        "frostline_slowdown_ratio",
        "Time lost in the last half minute, for each second without loss, by what it was lost to.",
        |s, to| {
            if let Some(loss) = &s.loss {
                let Lost { swap_ins, slow_loads, faults, ours } = loss.latest.parts;
                to(&[("part", "swap_ins")], swap_ins);
                to(&[("part", "slow_loads")], slow_loads);
                to(&[("part", "faults")], faults);
                to(&[("part", "ours")], ours);
            }
        },
    ),
    gauge("frostline_slowdown_goal_ratio", "Most that the slowdown shall be.", |s, to| {
        s.loss.iter().filter_map(|loss| loss.goal).for_each(|goal| to(&[], goal));
    }),
    gauge("frostline_compressed_bytes", "Memory that zram takes.", |s, to| {
        s.compressed_bytes.iter().for_each(|bytes| to(&[], *bytes as f64));
    }),
    gauge("frostline_class_bytes", "Memory by hotness.", |s, to| {
        let names = ["hot", "warm", "cold"];
        for (name, pages) in names.iter().zip(s.classes.iter().flatten()) {
            to(&[("class", name)], pages.saturating_mul(PAGE_BYTES) as f64);
        }
    }),
    gauge(
        "frostline_hotness_bytes",
        "Memory by hotness, by the least hotness of a bin.",
        |s, to| {
            for bin in &s.hotness {
                to(&[("least", &bin.least.to_string()), ("class", &bin.class)], bin.bytes as f64);
            }
        },
    ),
    counter("frostline_samples_total", "Accesses sampled, other than refaults.", |s, to| {
        to(&[("hit", "fast")], s.accounts.sampled_fast as f64);
        to(&[("hit", "slow")], s.accounts.sampled.saturating_sub(s.accounts.sampled_fast) as f64);
    }),
    counter("frostline_arrived_bytes_total", "Moves that were verified, by tier.", |s, to| {
        for tier in &s.tiers {
            to(&[("tier", &tier.name)], tier.arrivals.verified_bytes as f64);
        }
    }),
    counter("frostline_refaults_total", "Pages that came back because of a touch.", |s, to| {
        to(&[], s.accounts.refaults as f64);
    }),
    counter(
        "frostline_attempted_bytes_total",
        "Moves asked of the kernel, by purpose.",
        |s, to| {
            purposes(s, |name, account| to(&[("purpose", name)], account.attempted_bytes as f64));
        },
    ),
    counter("frostline_moved_bytes_total", "Moves that were verified, by purpose.", |s, to| {
        purposes(s, |name, account| to(&[("purpose", name)], account.verified_bytes as f64));
    }),
    counter(
        "frostline_failed_bytes_total",
        "Moves that failed, by purpose and reason.",
        |s, to| {
            purposes(s, |name, account| {
                let reasons = [
                    ("busy", account.busy_bytes),
                    ("no_space", account.no_space_bytes),
                    ("gone", account.gone_bytes),
                    ("shared", account.shared_bytes),
                ];
                for (reason, bytes) in reasons {
                    to(&[("purpose", name), ("reason", reason)], bytes as f64);
                }
            });
        },
    ),
    counter("frostline_foreign_moves_total", "Pages that somebody else has moved.", |s, to| {
        to(&[], s.accounts.moved_by_others as f64);
    }),
    counter("frostline_splits_total", "Huge folios split.", |s, to| {
        to(&[("result", "done")], s.accounts.splits as f64);
        to(&[("result", "failed")], s.accounts.failed_splits as f64);
    }),
    counter("frostline_collapses_total", "Huge folios rebuilt.", |s, to| {
        to(&[("result", "done")], s.accounts.collapses as f64);
        to(&[("result", "failed")], s.accounts.failed_collapses as f64);
    }),
    counter("frostline_rejected_pages_total", "Proposals turned down, by reason.", |s, to| {
        s.rejected_pages.iter().for_each(|(why, pages)| to(&[("reason", why)], *pages as f64));
    }),
    counter("frostline_touches_total", "Accesses seen, by source.", |s, to| {
        s.sources.iter().for_each(|x| to(&[("source", &x.name)], x.touches as f64));
    }),
    counter("frostline_lost_touches_total", "Accesses missed, by source.", |s, to| {
        s.sources.iter().for_each(|x| to(&[("source", &x.name)], x.lost as f64));
    }),
    counter("frostline_cpu_seconds_total", "Processor time spent on the target.", |s, to| {
        to(&[], s.cpu_seconds);
    }),
    gauge(
        "frostline_own_memory_limit_bytes",
        "What the daemon's memory shall not exceed.",
        |s, to| {
            to(&[], s.own_limit_bytes as f64);
        },
    ),
    gauge("frostline_metadata_bytes", "Tables with an entry per page.", |s, to| {
        to(&[], s.metadata_bytes as f64);
    }),
];

fn purposes(status: &Status, mut tell: impl FnMut(&str, &Account)) {
    let accounts = &status.accounts;
    tell("promotion", &accounts.promotions);
    tell("demotion", &accounts.demotions);
    tell("limit", &accounts.reclaimed);
    tell("probe", &accounts.probes);
    tell("closed-file", &accounts.files);
}

/// What is read, and encoded at once.
#[derive(Debug)]
struct Page(Vec<Status>);

impl Collector for Page {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for family in FAMILIES {
            write(&mut encoder, family.name, family.kind, family.help, |to| {
                for status in &self.0 {
                    (family.read)(status, &mut |labels, value| {
                        let target = ("target", status.name.raw());
                        to(&[&[target], labels].concat(), value);
                    });
                }
            })?;
        }
        let own = [
            ("process_cpu_seconds_total", MetricType::Counter, clock::process_cpu().as_secs_f64()),
            ("process_resident_memory_bytes", MetricType::Gauge, clock::own_rss().0 as f64),
        ];
        for (name, kind, value) in own {
            write(&mut encoder, name, kind, "Of the daemon.", |to| to(&[], value))?;
        }
        Ok(())
    }
}

/// Writes the numbers of one name.
fn write(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    kind: MetricType,
    help: &str,
    numbers: impl FnOnce(Sink<'_>),
) -> fmt::Result {
    let stem = name.strip_suffix(TOTAL).unwrap_or(name);
    let mut metric = encoder.encode_descriptor(stem, help, None, kind)?;
    let mut ended = Ok(());
    numbers(&mut |labels, value| {
        let one = match labels {
            [] => number(&mut metric, kind, value),
            labels => metric.encode_family(&labels).and_then(|mut of| number(&mut of, kind, value)),
        };
        ended = ended.and(one);
    });
    ended
}

/// Whole numbers are written without a fraction.
fn number(to: &mut MetricEncoder<'_>, kind: MetricType, value: f64) -> fmt::Result {
    let whole =
        (value >= 0.0 && value.fract() == 0.0 && value < MOST_WHOLE).then_some(value as u64);
    match (kind, whole) {
        (MetricType::Counter, Some(whole)) => to.encode_counter::<NoLabelSet, _, f64>(&whole, None),
        (MetricType::Counter, None) => to.encode_counter::<NoLabelSet, _, f64>(&value, None),
        (_, Some(whole)) => to.encode_gauge(&whole),
        (_, None) => to.encode_gauge(&value),
    }
}

/// The page that Prometheus reads.
pub fn page(statuses: &[Status]) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Page(statuses.to_vec())));
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = text::encode(&mut text, &registry);
    text
}
