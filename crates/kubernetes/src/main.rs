//! `frostline-kubernetes`: annotated pods of a node as targets of Frostline's daemon.
//!
//! It asks the cluster for the pods of its node, finds their control groups, and writes a file that the daemon includes. It
//! needs no right on the node but to read the tree of control groups; the daemon needs none in the cluster.
#![forbid(unsafe_code)]

mod api;
mod groups;
mod pods;
mod targets;

use api::Api;
use clap::Parser;
use frostline_terminal::progress::note;
use frostline_terminal::{cancel, errors, files, output};
use groups::Groups;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{self, ExitCode};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};
use targets::Targets;

/// Between two questions where a pod has no control group yet.
const SOON: Duration = Duration::from_secs(2);
/// Least time between two questions, however much happens.
const LEAST: Duration = Duration::from_secs(2);
/// Longest time without a question.
const LONGEST: Duration = Duration::from_secs(240);
/// Longest time between two tries where the cluster does not answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// Between two looks for signals.
const LOOK: Duration = Duration::from_millis(100);

const LONG: &str = "\
Writes a file of targets for `frostline daemon`, one for each pod of this node that has an annotation such as \
frostline.dev/max-slowdown: \"2%\". The daemon's configuration names the file by `include` and follows it.

Annotations: frostline.dev/max-slowdown, fast, min-fast, policy, cpu-limit, with the values that a target's keys have. A pod with a \
wrong one is left out and named; all others go on.";

const EXAMPLES: &str = "\
Examples:
  frostline-kubernetes --node $NODE_NAME --output /run/frostline-pods/targets.toml
  frostline-kubernetes --node $NODE_NAME --dry-run         # print the file, once";

/// Have annotated pods of this node tiered by Frostline's daemon
#[derive(Parser)]
#[command(name = "frostline-kubernetes", version, long_about = LONG, after_help = EXAMPLES)]
struct Args {
    /// Name of this node in the cluster
    #[arg(long, value_name = "NAME", env = "NODE_NAME")]
    node: String,
    /// The file to write
    #[arg(short, long, value_name = "FILE", required_unless_present = "dry_run")]
    output: Option<PathBuf>,
    /// Control groups of the node
    #[arg(long, value_name = "FOLDER", default_value = "/sys/fs/cgroup")]
    cgroups: PathBuf,
    /// Where the daemon finds the same control groups [default: as --cgroups]
    #[arg(long, value_name = "FOLDER")]
    daemon_cgroups: Option<PathBuf>,
    /// Address of the cluster's API [default: that of the cluster that this runs in]
    #[arg(long, value_name = "URL")]
    api: Option<String>,
    /// Folder of the service account: token and ca.crt
    #[arg(
        long,
        value_name = "FOLDER",
        default_value = "/var/run/secrets/kubernetes.io/serviceaccount"
    )]
    account: PathBuf,
    /// Print the file once and write nothing
    #[arg(long)]
    dry_run: bool,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => errors::report(&error, 1),
    }
}

/// What was said and what was written last, so that nothing is said or written twice in a row.
#[derive(Default)]
struct Last {
    text: Option<String>,
    remarks: BTreeSet<String>,
    failure: Option<String>,
}

fn run(args: &Args) -> anyhow::Result<()> {
    let api = Api::new(args.api.as_deref(), &args.account)?;
    if args.dry_run {
        let (targets, _) = look(args, &api)?;
        targets.remarks.iter().for_each(|remark| note(remark));
        return output::text(&targets.text);
    }
    end_by_signals()?;
    let mut last = Last::default();
    let mut patience = LEAST;
    loop {
        let begun = Instant::now();
        let answer = look(args, &api).and_then(|(targets, version)| {
            keep(args, &targets, &mut last)?;
            Ok((targets.waiting, version))
        });
        match answer {
            Ok((waiting, version)) => {
                (last.failure, patience) = (None, LEAST);
                let longest = if waiting { SOON } else { LONGEST };
                // A watch that fails is as good as one that ends: what there is is asked for again.
                let _ = api.changes(&args.node, &version, longest);
                sleep(LEAST.saturating_sub(begun.elapsed()));
            }
            Err(error) => {
                let text = errors::text(&error);
                if last.failure.as_ref() != Some(&text) {
                    note(&format!("{text}; all goes on as before"));
                    last.failure = Some(text);
                }
                sleep(patience);
                patience = (patience * 2).min(PATIENCE);
            }
        }
    }
}

fn look(args: &Args, api: &Api) -> anyhow::Result<(Targets, String)> {
    let list = api.pods(&args.node)?;
    let groups = Groups::find(&args.cgroups)?;
    let daemons = args.daemon_cgroups.as_ref().unwrap_or(&args.cgroups);
    Ok((Targets::of(&list.items, &groups, daemons), list.metadata.resource_version))
}

/// Writes the file where it is another, and says what is new.
fn keep(args: &Args, targets: &Targets, last: &mut Last) -> anyhow::Result<()> {
    for remark in targets.remarks.difference(&last.remarks) {
        note(remark);
    }
    last.remarks.clone_from(&targets.remarks);
    if last.text.as_ref() != Some(&targets.text) {
        if let Some(path) = &args.output {
            files::replace(path, targets.text.as_bytes())?;
        }
        note(&match targets.count {
            1 => "1 pod to tier".into(),
            count => format!("{count} pods to tier"),
        });
        last.text = Some(targets.text.clone());
    }
    Ok(())
}

/// Has signals end the program at once: an answer may be waited for for minutes, and nothing is half written. Without this,
/// the first process of a container would not notice them.
fn end_by_signals() -> anyhow::Result<()> {
    cancel::install()?;
    thread::spawn(|| {
        while !cancel::requested() {
            sleep(LOOK);
        }
        process::exit(0);
    });
    Ok(())
}
