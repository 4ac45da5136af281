//! `frostline-repro tournament`.

use crate::lines::{self, Lines};
use crate::parallel;
use crate::tournament::families::{Set, Sets};
use crate::tournament::held_out::{Log, Look};
use crate::tournament::matrix::Matrix;
use crate::tournament::results::{Case, Settings};
use crate::tournament::standings::{Standing, standings, worst};
use crate::tournament::units::{Selection, Units, simulations_of_a_case};
use crate::tournament::{play, played, show};
use anyhow::Context;
use frostline_core::policy::registry;
use frostline_terminal::errors::{failure, usage};
use frostline_terminal::progress::note;
use frostline_terminal::{cancel, files, output};
use serde::Serialize;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  frostline-repro tournament -o t.jsonl --form quick       # within an hour; Ctrl-C, and the same again goes on
  frostline-repro tournament -o t.jsonl --form quick --family btree
  frostline-repro tournament -o u.jsonl --form quick --choices t.jsonl     # after a change of the policy
  frostline-repro tournament --dry-run --form full
  frostline-repro tournament -o t.jsonl --write docs/notes/frost.md

Regret is how much longer the policy takes than the best rival of a case, in modelled seconds. Rivals
run with folios and with base pages, in as many bytes of fast memory. The best of them is chosen on
other seeds than it is compared on. Results are kept by case in the file of -o; the same settings go on
with it.")]
pub struct Args {
    /// Matrix of families, forms and rivals [default: the program's own]
    #[arg(value_name = "FILE.toml")]
    matrix: Option<PathBuf>,
    /// Results, a line for each case; an existing file is gone on with
    #[arg(short, long, value_name = "FILE.jsonl", required_unless_present = "dry_run")]
    output: Option<PathBuf>,
    /// How long it is, and on what it plays: quick, default, full
    #[arg(long, value_name = "NAME", default_value = "default")]
    form: String,
    /// Policy that is judged
    #[arg(short, long, value_name = "POLICY", default_value = "frost")]
    policy: String,
    /// Pages of the rivals: both sizes, the better one counting, or as they are
    #[arg(long, value_name = "both|as-is", default_value = "both", hide_possible_values = true)]
    rivals: Rivals,
    /// Families that play: development, held-out, or all; a look at what is held out is logged
    #[arg(long, value_name = "SET", default_value = "development", hide_possible_values = true)]
    set: Sets,
    /// Only this family
    #[arg(long, value_name = "NAME")]
    family: Option<String>,
    /// Folder with recorded programs, which play in their families
    #[arg(long, value_name = "FOLDER")]
    programs: Option<PathBuf>,
    /// Results of another policy or build, whose rivals need not play again
    #[arg(long, value_name = "FILE.jsonl")]
    choices: Option<PathBuf>,
    /// Log of the runs with what is held out
    #[arg(long, value_name = "FILE", default_value = "repro/held-out.log")]
    log: PathBuf,
    /// Pieces of work at the same time [default: one per core]
    #[arg(short, long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
    /// Say how many cases and simulations there are, and end
    #[arg(long)]
    dry_run: bool,
    /// How many of the worst cases to name
    #[arg(long, value_name = "N", default_value_t = 10)]
    worst: usize,
    /// Put the table between the marks of this document, too
    #[arg(long, value_name = "FILE.md")]
    write: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Pages that rivals run with.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Rivals {
    Both,
    AsIs,
}

/// What JSON has of all cases together.
#[derive(Serialize)]
struct About<'a> {
    settings: &'a Settings,
    set: &'static str,
    /// Recorded programs that did not play.
    missing: &'a [String],
    standings: &'a [Standing],
}

/// Plays what is missing, and prints the standings.
///
/// # Errors
/// A matrix that cannot be read, a run that fails, a stop, or results that cannot be written.
pub fn run(args: &Args) -> anyhow::Result<()> {
    cancel::install()?;
    let matrix = Matrix::read(args.matrix.as_deref())?;
    let units = Units::of(
        &matrix,
        &Selection {
            form: &args.form,
            sets: args.set,
            family: args.family.as_deref(),
            programs: args.programs.as_deref(),
        },
    )?;
    let settings = settings(args, &matrix)?;
    let plan = plan(args, &units, &settings);
    let Some(path) = args.output.as_deref().filter(|_| !args.dry_run) else {
        return output::text(&(plan + "\n"));
    };
    note(&plan);
    let known = match &args.choices {
        Some(path) => choices(path, &settings)?,
        None => Vec::new(),
    };
    let mut results = Lines::open(path, &settings)?;
    let log = units.held_out().then(|| Log::open(&args.log)).transpose()?;
    let outcome = play(&units, &settings, &known, parallel::jobs(args.jobs), &mut results);
    let cases = played(&units, &results);
    if let Some(mut log) = log {
        look(&mut log, args, &units, &settings, &cases)?;
    }
    outcome?;
    let all = standings(&cases);
    let worst = worst(&cases, args.worst);
    if let Some(path) = &args.write {
        let named = || path.display().to_string();
        let document = std::fs::read_to_string(path).with_context(named)?;
        let table = show::markdown(&settings, &all, &worst);
        let document = show::insert(&document, &table).with_context(named)?;
        files::replace(path, document.as_bytes())?;
    }
    if args.json {
        let (set, missing) = (args.set.name(), &*units.missing);
        let about = About { settings: &settings, set, missing, standings: &all };
        output::json_about(about, &cases)
    } else {
        output::text(&show::text(&settings, &all, &worst, &units.missing)?)
    }
}

fn settings(args: &Args, matrix: &Matrix) -> anyhow::Result<Settings> {
    registry::check(&args.policy)?;
    let form = matrix.form(&args.form)?;
    let rivals = matrix.rivals(&args.policy)?;
    if rivals.is_empty() {
        return Err(usage("there are no rivals", "name others in the matrix: rivals = \"memtis\""));
    }
    Ok(Settings {
        policy: args.policy.clone(),
        rivals,
        as_is: args.rivals == Rivals::AsIs,
        choice_seeds: form.choice_seeds,
        compare_seeds: form.compare_seeds,
        form: args.form.clone(),
        build: crate::build()?,
    })
}

/// What is about to be done.
fn plan(args: &Args, units: &Units, settings: &Settings) -> String {
    let cases = units.cases();
    let each = simulations_of_a_case(settings);
    let mut text = format!(
        "form {}, set {}: {} programs on machines, {cases} cases, {} simulations ({each} each)",
        args.form,
        args.set.name(),
        units.all.len(),
        cases * each
    );
    if !units.missing.is_empty() {
        text += &format!("\nmissing recorded programs: {}", units.missing.join(", "));
    }
    if units.held_out() {
        text += &format!("\nthe set is held out: this look is logged in {}", args.log.display());
    }
    text
}

/// Cases of another file whose rivals played in the same way.
fn choices(path: &Path, settings: &Settings) -> anyhow::Result<Vec<Case>> {
    let (made, cases): (Settings, Vec<Case>) = lines::read(path)?;
    let same =
        Settings { policy: settings.policy.clone(), build: settings.build.clone(), ..made.clone() };
    if same != *settings {
        let what = format!("--choices {}: its rivals played otherwise", path.display());
        return Err(failure(
            what,
            "give the form, the rivals and the matrix that it was made with",
        ));
    }
    if made.build != settings.build {
        note(&format!(
            "{} is of another build: its rivals' times count as they are",
            path.display()
        ));
    }
    Ok(cases)
}

/// Logs what was seen of the held-out set, also where it was stopped before its end.
fn look(
    log: &mut Log,
    args: &Args,
    units: &Units,
    settings: &Settings,
    cases: &[&Case],
) -> anyhow::Result<()> {
    let seen: Vec<&Case> = cases.iter().filter(|case| case.set == Set::HeldOut).copied().collect();
    let of = units.all.iter().filter(|unit| unit.set == Set::HeldOut);
    let standings = standings(&seen);
    log.add(&Look {
        settings,
        sets: args.set.name(),
        cases: of.map(|unit| unit.fast.len()).sum(),
        standing: standings.first(),
    })
}
