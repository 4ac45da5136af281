//! Programs: what processes, the kernel and others do between two steps of the daemon, or in the
//! middle of one.

use crate::disaster::Disaster;
use crate::host::Host;
use frostline_core::event::Backing;
use frostline_core::span::{ExtentChange, Span};
use frostline_core::types::*;
use frostline_daemon::Change;

/// Processes that run at a time.
const PROCESSES: u64 = 6;
/// Pages that a process may map things in: 32 blocks of 2 MiB.
const ROOM: u64 = 32 * 512;
/// First of them.
const FIRST: u64 = 1 << 20;
/// Mappings of a process.
const AREAS: usize = 8;

/// One thing happens.
pub fn act(host: &mut Host) {
    let pids: Vec<u32> = host.kernel.processes.keys().copied().collect();
    if (pids.len() as u64) < PROCESSES && host.injector.rng.below(8) == 0 || pids.is_empty() {
        let pid = 100 + host.injector.rng.below(4 * PROCESSES) as u32;
        if !host.kernel.processes.contains_key(&pid) {
            host.kernel.start(pid);
            map(host, pid);
        }
        return;
    }
    let pid = pids[host.injector.rng.below(pids.len() as u64) as usize];
    match host.injector.rng.below(100) {
        0..8 => map(host, pid),
        8..60 => touch(host, pid),
        60..67 => {
            if host.injector.strikes(Disaster::Unmap, 2) {
                let span = part(host, pid);
                let change = host.kernel.unmap(pid, span);
                host.called(pid, Change::Extent(change));
            }
        }
        67..74 => {
            if host.injector.strikes(Disaster::DontNeed, 1) {
                let span = part(host, pid);
                host.kernel.dont_need(pid, span);
            }
        }
        74..80 => {
            let (from, to) = (part(host, pid), free_place(host));
            if host.injector.strikes(Disaster::Remap, 2)
                && let Some(change) = host.kernel.remap(pid, from, to)
            {
                host.called(pid, Change::Extent(change));
            }
        }
        80..83 => {
            let vpn = part(host, pid).start;
            if host.injector.strikes(Disaster::Split, 1) {
                host.kernel.split(pid, vpn);
            }
        }
        83..88 => {
            let vpn = part(host, pid).start;
            if host.injector.strikes(Disaster::Collapse, 1) {
                fill(host, pid, Span::region_of(vpn));
                host.kernel.collapse(pid, vpn);
            }
        }
        88..94 => {
            let span = part(host, pid);
            let tier = TierId(host.injector.rng.below(host.kernel.tiers.len() as u64) as u8);
            if host.injector.strikes(Disaster::Elsewhere, 1) {
                for vpn in span.iter().take(64) {
                    host.moved_by_others(pid, vpn, tier);
                }
            }
        }
        94..96 => life(host, pid, pids.len() as u64),
        _ => others(host),
    }
    host.disarm_gone(pid);
}

/// A process begins, replaces or ends itself.
fn life(host: &mut Host, pid: u32, processes: u64) {
    let child = 100 + host.injector.rng.below(4 * PROCESSES) as u32;
    match host.injector.rng.below(4) {
        0 if processes < PROCESSES && host.injector.strikes(Disaster::Fork, 1) => {
            host.kernel.fork(pid, child);
        }
        1 if host.injector.strikes(Disaster::Exec, 1) => {
            let areas = &host.kernel.processes[&pid].areas;
            let (first, last) = (areas.first_key_value(), areas.last_key_value());
            if let (Some((first, _)), Some((last, area))) = (first, last) {
                let all = Span::between(Vpn(*first), Vpn(last + area.pages.len() as u64));
                host.called(pid, Change::Extent(ExtentChange::Unmapped { span: all }));
            }
            host.kernel.exec(pid);
            host.called(pid, Change::Executed);
            map(host, pid);
        }
        2 if host.injector.strikes(Disaster::Exit, 1) => host.kernel.exit(pid),
        3 if host.injector.strikes(Disaster::Reuse, 1) => {
            host.kernel.exit(pid);
            host.kernel.start(pid);
            map(host, pid);
        }
        _ => {}
    }
}

/// Others fill tiers, or limits change.
fn others(host: &mut Host) {
    let tier = 1 + host.injector.rng.below(host.kernel.tiers.len() as u64 - 1) as usize;
    let share = host.injector.rng.below(5);
    if host.injector.strikes(Disaster::Full, 2) {
        let tier = &mut host.kernel.tiers[tier];
        tier.others = (tier.capacity - tier.used.min(tier.capacity)) * share / 4;
    }
    if let Some(swap) = host.kernel.swap
        && host.injector.strikes(Disaster::GroupLimit, 2)
    {
        let capacity = host.kernel.tiers[swap.index()].capacity;
        host.kernel.swap_limit = if share == 4 { u64::MAX } else { capacity * share / 4 };
    }
}

fn free_place(host: &mut Host) -> Vpn {
    let aligned = host.injector.rng.below(2) == 0;
    let at = host.injector.rng.below(ROOM);
    Vpn(FIRST + if aligned { at / 512 * 512 } else { at })
}

fn map(host: &mut Host, pid: u32) {
    let start = free_place(host);
    let pages = match host.injector.rng.below(3) {
        0 => 1 + host.injector.rng.below(40),
        1 => 512 * (1 + host.injector.rng.below(2)),
        _ => 1 + host.injector.rng.below(1500),
    };
    let backing = match host.injector.rng.below(3) {
        0 => Backing::Heap,
        1 => Backing::Stack,
        _ => Backing::Anonymous,
    };
    let areas = host.kernel.processes.get(&pid).map_or(0, |process| process.areas.len());
    if areas < AREAS
        && let Some(change) = host.kernel.map(pid, Span::new(start, pages), backing)
    {
        host.called(pid, Change::Extent(change));
    }
}

/// A part of what a process has mapped, in one mapping.
fn part(host: &mut Host, pid: u32) -> Span {
    let (which, from, to) =
        (host.injector.rng.next_u64(), host.injector.rng.next_u64(), host.injector.rng.next_u64());
    let Some(process) = host.kernel.processes.get(&pid).filter(|p| !p.areas.is_empty()) else {
        return Span::new(Vpn(FIRST), 1);
    };
    let at = (which % process.areas.len() as u64) as usize;
    let (start, area) = process.areas.iter().nth(at).expect("there are so many");
    let pages = area.pages.len() as u64;
    let from = if from % 3 == 0 { 0 } else { from / 3 % pages };
    let left = pages - from;
    let count = if to % 3 == 0 { left } else { 1 + to / 3 % left };
    Span::new(Vpn(start + from), count)
}

fn touch(host: &mut Host, pid: u32) {
    let span = part(host, pid);
    let (step, write) = (1 + host.injector.rng.below(8), host.injector.rng.below(3) == 0);
    for vpn in span.iter().step_by(step as usize).take(48) {
        host.touch(pid, vpn, write);
    }
}

/// Touches all of a region.
fn fill(host: &mut Host, pid: u32, region: Span) {
    region.iter().for_each(|vpn| host.touch(pid, vpn, true));
}
