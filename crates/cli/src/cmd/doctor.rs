//! `frostline doctor`: what this system lets us do, and what is left of frostlines that were killed.

use super::undo;
use crate::live::slow;
use frostline_driver::SlowTier;
use frostline_driver::doctor::{Capability, examine};
use frostline_linux::Root;
use frostline_terminal::output;
use std::process::ExitCode;

/// What `--help` says first.
pub const LONG: &str = "\
Says for everything that tiering can make use of whether this system has it, why, and what would \
help. It is tried on a process of our own wherever that is harmless; nothing that lasts is changed.

With --undo it undoes changes to the system whose frostline no longer runs: kernel settings, zram \
devices. What other frostlines rely on is left alone, and so is a swap device on which there are \
pages of running programs, unless they fit into free memory and --swap-off is given.";

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  frostline doctor
  sudo frostline doctor --json
  sudo frostline doctor --undo")]
pub struct Args {
    /// Undo what a frostline that was killed had changed
    #[arg(long)]
    undo: bool,
    /// Bring pages back from swap devices that we set up, if there is enough free memory
    #[arg(long, requires = "undo")]
    swap_off: bool,
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
}

/// What is shown together, in this order.
const GROUPS: &[(&str, &[&str])] = &[
    (
        "Rights",
        &[
            "cap-sys-nice",
            "cap-sys-ptrace",
            "cap-sys-admin",
            "cap-perfmon",
            "perf-event-paranoid",
            "no-lockdown",
        ],
    ),
    (
        "Memory",
        &[
            "numa-nodes",
            "memory-tiers",
            "hmat",
            "numa-balancing-off",
            "huge-pages",
            "swap",
            "zram",
            "zswap",
            "cgroup-v2",
        ],
    ),
    ("Moving pages", &["move-pages", "page-out", "advise", "split", "split-shared", "collapse"]),
];
/// All others.
const OTHERS: &str = "Seeing accesses";

/// Runs the command.
///
/// # Errors
/// Where standard output cannot be written; with `--undo`, as [`undo::run`].
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.undo {
        return undo::run(args.swap_off, args.json);
    }
    let found = examine(&Root::system());
    if args.json {
        output::json(&found)?;
    } else {
        output::text(&show(&found))?;
        output::text(&recommended(slow::choose(&Root::system())))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What to begin with, where `tier` would be taken and why: three commands that work here.
fn recommended((tier, why): (SlowTier, String)) -> String {
    let predict = "frostline advise --for 30s -- PROGRAM";
    let predicted = "records it, and says how much fast memory it needs";
    let commands = match tier {
        SlowTier::Observe => [
            ("frostline run --slow none -- PROGRAM".to_owned(), format!("only watches, as {why}")),
            (predict.to_owned(), predicted.to_owned()),
            ("frostline status --watch".to_owned(), "shows what others have begun".to_owned()),
        ],
        tier => [
            (format!("frostline run --slow {tier} -- PROGRAM"), why),
            (
                format!("frostline attach PID --slow {tier}"),
                "the same for one that runs; at most 1 % slower".to_owned(),
            ),
            (predict.to_owned(), predicted.to_owned()),
        ],
    };
    let width = commands.iter().map(|(command, _)| command.len()).max().unwrap_or(0);
    let lines = commands.map(|(command, why)| format!("  {command:width$}   # {why}\n"));
    format!("What you can do here now\n{}", lines.concat())
}

fn group(name: &str) -> &'static str {
    GROUPS.iter().find(|(_, names)| names.contains(&name)).map_or(OTHERS, |(group, _)| group)
}

fn show(found: &[Capability]) -> String {
    let width = found.iter().map(|capability| capability.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for title in GROUPS.iter().map(|(title, _)| *title).chain([OTHERS]) {
        let members: Vec<_> = found.iter().filter(|one| group(one.name) == title).collect();
        if members.is_empty() {
            continue;
        }
        text += &format!("{title}\n");
        for Capability { name, available, why, hint } in members {
            let answer = if *available { "yes" } else { "no" };
            text += &format!("  {name:width$}  {answer:3}  {why}\n");
            if let Some(hint) = hint {
                text += &format!("  {:width$}       hint: {hint}\n", "");
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_words_are_what_to_do() {
        let zram = SlowTier::Zram { size: None, algorithm: None, spills: false };
        let text = recommended((zram, "slow tier: zram; one tier".into()));
        assert!(text.contains("frostline run --slow zram -- PROGRAM"), "{text}");
        let text = recommended((SlowTier::Observe, "nothing is moved: no root".into()));
        assert!(text.contains("--slow none") && text.contains("no root"), "{text}");
        assert_eq!(text.matches("  frostline ").count(), 3, "{text}");
    }

    #[test]
    fn groups_are_aligned_and_complete() {
        let one = |name, available, hint: Option<&str>| Capability {
            name,
            available,
            why: "seen".into(),
            hint: hint.map(Into::into),
        };
        let found = [
            one("page-idle", false, Some("build it in")),
            one("swap", true, None),
            one("numa-nodes", true, None),
        ];
        assert_eq!(
            show(&found),
            "Memory\n  swap        yes  seen\n  numa-nodes  yes  seen\n\
             Seeing accesses\n  page-idle   no   seen\n                   hint: build it in\n"
        );
    }
}
