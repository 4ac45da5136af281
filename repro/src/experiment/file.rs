//! The file that describes an experiment.

use super::map::MapOf;
use super::measure::Measure;
use anyhow::Context;
use frostline_core::consolidation::ConsolidationLimit;
use frostline_core::policy::registry;
use frostline_core::spec::{self, SpecError};
use frostline_sim::{FastSize, GuestSetup, Machine, SERIES_POINTS, Scale};
use frostline_study::Programs;
use frostline_terminal::errors::usage;
use frostline_terminal::located;
use include_dir::{Dir, include_dir};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Experiments that come with the program.
pub(super) static BUILT_IN: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../experiments");

/// Stands for the best policy of another family.
pub const OTHERS: &str = "others";

/// Two maps for each workload and size: by the program's addresses and by the machine's.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeatmapOf {
    /// What it shows, in a few words.
    pub title: String,
    /// Policy under which time goes by and memory gets its frames.
    pub of: String,
    /// Workloads; all where it is missing.
    #[serde(default)]
    pub workloads: Vec<String>,
    /// Sizes of fast memory; all where it is missing.
    #[serde(default)]
    pub fast: Vec<String>,
}

/// Seeds that a file may ask for, as on the command line.
const MOST_SEEDS: u64 = 1000;
/// Programs at once that a file may ask for, as on the command line.
const MOST_PROGRAMS: u64 = 256;
/// Samples that a file may ask for.
const MOST_SAMPLES: u64 = 1_000_000_000;
/// Of which a reaction can be told to a 60th of the time between two changes.
const POINTS_BETWEEN_CHANGES: f64 = 60.0;

/// A figure or table of a paper.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// What it shows, in a line.
    pub title: String,
    /// Paper and figure or table.
    pub paper: String,
    /// How it was run there, and how it is run here.
    pub about: String,
    /// Machine model.
    #[serde(default = "machine")]
    pub machine: String,
    /// Machine models, all of which are run, instead of `machine`.
    #[serde(default)]
    pub machines: Vec<String>,
    /// Whether the translation lookaside buffer is modelled.
    #[serde(default = "tlb")]
    pub tlb: bool,
    /// Sizes of fast memory; none where only the workloads are looked at.
    #[serde(default)]
    pub fast: Vec<String>,
    /// Policies and groups, separated by commas; none where only the workloads are looked at.
    #[serde(default)]
    pub policies: String,
    /// Virtual machines around every program, each kind in runs of its own: `none`, `gpac`. A policy in
    /// `gpac` is called `memtis+gpac`.
    #[serde(default)]
    pub guest: Vec<String>,
    /// How many of each workload run at once.
    #[serde(default = "one")]
    pub programs: u32,
    /// Size of the paper's programs, by which intervals are scaled; 64 GiB where it is missing.
    pub stands_for: Option<String>,
    /// How many seeds.
    #[serde(default = "seeds")]
    pub seeds: u64,
    /// How many seeds in a quick run.
    #[serde(default = "quick_seeds")]
    pub quick_seeds: u64,
    /// Whether the upper bound is computed.
    #[serde(default)]
    pub bound: bool,
    /// Samples from which the use of huge pages is told, for a footprint of 64 GiB; in proportion
    /// for others.
    #[serde(default = "samples")]
    pub samples: u64,
    /// What is run.
    pub workload: Vec<Workload>,
    /// What is compared with the paper.
    #[serde(default)]
    pub result: Vec<ResultOf>,
    /// What is drawn beside the results.
    #[serde(default)]
    pub chart: Vec<Chart>,
    /// Results over two parameters of a policy.
    #[serde(default)]
    pub map: Vec<MapOf>,
    /// Accesses over addresses and time.
    #[serde(default)]
    pub heatmap: Vec<HeatmapOf>,
}

/// One program or generator.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// As the paper calls it.
    pub name: String,
    /// Trace: a file, or `synth:...`.
    pub trace: String,
    /// A smaller one for quick runs; the same where it is missing.
    pub quick: Option<String>,
    /// Limit of `gpac` for this workload, where it names none.
    pub cl: Option<u32>,
    /// Memory of guests, by what is resident in them, where they name none.
    pub guest_memory: Option<String>,
    /// What runs at the same time.
    pub beside: Option<Beside>,
    /// How many of it run at once, where that differs from the other workloads.
    pub programs: Option<u32>,
    /// Size of fast memory, where that differs from the one that the others have.
    pub fast: Option<String>,
    /// Size of the paper's program, where that differs from the others'; of all programs that run at once.
    pub stands_for: Option<String>,
    /// Parameters in which its machine differs from the others', such as `mlp=1.3`.
    pub machine: Option<String>,
}

/// A program beside another one.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Beside {
    /// Trace: a file, or `synth:...`.
    pub trace: String,
    /// A smaller one for quick runs; the same where it is missing.
    pub quick: Option<String>,
    /// Share of the other's records after which it begins.
    #[serde(default = "at_once")]
    pub after: String,
}

impl Beside {
    /// The trace to run.
    pub fn trace(&self, quick: bool) -> &str {
        by_effort(&self.trace, self.quick.as_deref(), quick)
    }
}

fn by_effort<'a>(trace: &'a str, smaller: Option<&'a str>, quick: bool) -> &'a str {
    smaller.filter(|_| quick).unwrap_or(trace)
}

fn at_once() -> String {
    "0%".into()
}

impl Workload {
    /// The trace to run.
    pub fn trace(&self, quick: bool) -> &str {
        by_effort(&self.trace, self.quick.as_deref(), quick)
    }
}

/// One comparison with the paper.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResultOf {
    /// What it says, in a few words.
    pub what: String,
    /// Workloads; all where it is missing.
    #[serde(default)]
    pub workloads: Vec<String>,
    /// Sizes of fast memory; all where it is missing.
    #[serde(default)]
    pub fast: Vec<String>,
    /// Machine models; all where it is missing.
    #[serde(default)]
    pub machines: Vec<String>,
    /// How it is computed.
    pub measure: Measure,
    /// Policy; none for measures that are about the workload alone.
    #[serde(default)]
    pub of: String,
    /// Policy that it is compared with, the best one of several, or `others` for the best one of
    /// another family.
    pub over: Option<Over>,
    /// Number of a run, for measures that are not about speed.
    pub number: Option<String>,
    /// Share of the accesses after which something changed, for measures of adaptation.
    pub since: Option<f64>,
    /// How often something changes from there on, each time after as many accesses.
    pub changes: Option<u32>,
    /// Unit of that number, where the measure leaves it open.
    pub unit: Option<String>,
    /// As published, for all of it or by workload, size and machine.
    pub paper: Option<Published>,
    /// Why ours differs, after having looked into it.
    pub differs: Option<String>,
    /// Why no run of ours can show it, in a line. It is not computed then.
    pub cannot: Option<String>,
}

impl ResultOf {
    /// Of this measure, about everything, and compared with nothing.
    pub fn new(measure: Measure) -> Self {
        Self {
            what: String::new(),
            workloads: Vec::new(),
            fast: Vec::new(),
            machines: Vec::new(),
            measure,
            of: String::new(),
            over: None,
            number: None,
            since: None,
            changes: None,
            unit: None,
            paper: None,
            differs: None,
            cannot: None,
        }
    }

    /// Unit of its values.
    pub fn unit(&self) -> &str {
        self.unit.as_deref().unwrap_or(self.measure.unit())
    }

    /// Whether what it says of a number that cannot be shown makes sense.
    fn check_cannot(&self) -> anyhow::Result<()> {
        let Some(why) = &self.cannot else { return Ok(()) };
        let (what, hint) = if why.trim().is_empty() {
            ("cannot is empty", "say why no run can show it, or drop the key")
        } else if why.trim().contains('\n') {
            ("cannot is longer than one line", "say it in one line")
        } else if self.differs.is_some() {
            ("it has both cannot and differs", "keep cannot where no run can show it, else differs")
        } else if self.paper.is_none() {
            ("nothing was published that cannot be shown", "add paper = ..., or drop cannot")
        } else {
            return Ok(());
        };
        Err(usage(format!("result \"{}\": {what}", self.what), hint))
    }

    /// Whether it is about that workload.
    pub fn is_for(&self, workload: &str) -> bool {
        names(&self.workloads, workload)
    }

    /// Whether it is about that size.
    pub fn is_at(&self, fast: &str) -> bool {
        names(&self.fast, fast)
    }

    /// Whether it is about that machine.
    pub fn is_on(&self, machine: &str) -> bool {
        names(&self.machines, machine)
    }
}

/// What a policy is compared with.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Over {
    /// One policy, or `others`.
    One(String),
    /// The fastest of these.
    Best(Vec<String>),
}

impl Over {
    /// The names, `others` among them.
    pub fn names(&self) -> &[String] {
        match self {
            Self::One(name) => std::slice::from_ref(name),
            Self::Best(names) => names,
        }
    }
}

/// What a chart shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChartKind {
    /// Hot, warm and cold memory of each policy over time, with the size of fast memory.
    Classes,
    /// Numbers of the policies over time; of bytes, with the size of fast memory.
    OverTime,
    /// Samples of each huge page over the subpages that it uses.
    HugePages,
}

/// A chart for each workload and size.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chart {
    /// What it shows, in a few words.
    pub title: String,
    /// What is drawn.
    pub kind: ChartKind,
    /// Policies.
    #[serde(default)]
    pub policies: Vec<String>,
    /// Numbers of a point of a run's series, or gauges of the policy.
    #[serde(default)]
    pub numbers: Vec<String>,
    /// Workloads; all where it is missing.
    #[serde(default)]
    pub workloads: Vec<String>,
    /// Sizes of fast memory; all where it is missing.
    #[serde(default)]
    pub fast: Vec<String>,
}

impl Chart {
    /// Whether it has what it needs, and nothing else.
    fn check(&self) -> anyhow::Result<()> {
        let of_pages = self.kind == ChartKind::HugePages;
        let keys = [
            ("policies", !of_pages, self.policies.is_empty()),
            ("numbers", self.kind == ChartKind::OverTime, self.numbers.is_empty()),
            ("fast", !of_pages, !of_pages || self.fast.is_empty()),
        ];
        for (key, wanted, missing) in keys {
            if wanted && missing && key != "fast" {
                let what = format!("chart \"{}\": it needs {key}", self.title);
                return Err(usage(what, format!("add {key} = [...]")));
            }
            if !wanted && !missing {
                let what = format!("chart \"{}\": its kind has no use for {key}", self.title);
                return Err(usage(what, format!("drop {key}")));
            }
        }
        Ok(())
    }
}

/// A published number or range, or one for each of several runs.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Published {
    /// One number.
    Number(f64),
    /// Least and most.
    Range([f64; 2]),
    /// By workload, size of fast memory or machine, and within one by another.
    By(BTreeMap<String, Published>),
}

impl Published {
    /// Least and most for a run that goes by these names; none where nothing was published for it.
    pub fn range(&self, names: &[&str]) -> Option<[f64; 2]> {
        match self {
            Self::Number(number) => Some([*number; 2]),
            Self::Range(range) => Some(*range),
            Self::By(each) => names.iter().find_map(|name| each.get(*name))?.range(names),
        }
    }

    /// The names that it tells numbers apart by.
    fn names(&self) -> Vec<&str> {
        match self {
            Self::Number(_) | Self::Range(_) => Vec::new(),
            Self::By(each) => each
                .iter()
                .flat_map(|(name, inner)| std::iter::once(name.as_str()).chain(inner.names()))
                .collect(),
        }
    }
}

/// Whether a list that may be empty for all holds a name.
pub fn names(list: &[String], name: &str) -> bool {
    list.is_empty() || list.iter().any(|one| one == name)
}

fn machine() -> String {
    "dram-nvm".into()
}

fn tlb() -> bool {
    true
}

fn size(text: &str) -> anyhow::Result<FastSize> {
    text.parse()
        .map_err(|error| usage(format!("fast = \"{text}\": {error}"), "write 1:8, 40% or 2GiB"))
}

/// `364%`, of what is resident.
fn multiple(text: &str) -> anyhow::Result<f64> {
    match text.strip_suffix('%') {
        Some(percent) => Ok(spec::parse_float(percent)? / 100.0),
        None => Err(usage(format!("guest_memory = \"{text}\""), "write a share, such as 160%")),
    }
}

fn one() -> u32 {
    1
}

fn seeds() -> u64 {
    5
}

fn quick_seeds() -> u64 {
    3
}

/// Between two coolings of MEMTIS.
fn samples() -> u64 {
    2_000_000
}

impl Experiment {
    /// Reads a file.
    ///
    /// # Errors
    /// A file that cannot be read, or is no experiment, with the line.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        Self::parse(&path.display().to_string(), &Self::text(path)?)
    }

    /// The text of a file, or of one that comes with the program.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn text(path: &Path) -> anyhow::Result<String> {
        std::fs::read_to_string(path).or_else(|error| {
            let built_in = Self::built_in(path).map(Into::into);
            built_in.ok_or_else(|| {
                usage(
                    format!("cannot read {}: {error}", path.display()),
                    "`frostline-repro list` names those that need no file",
                )
            })
        })
    }

    /// The text of one that comes with the program, by the name of its file, with or without its end.
    fn built_in(path: &Path) -> Option<&'static str> {
        let name = path.file_name()?.to_str()?;
        let name = name.strip_suffix(".toml").unwrap_or(name);
        BUILT_IN.get_file(format!("{name}.toml"))?.contents_utf8()
    }

    /// Names of those that come with the program, in order.
    pub fn names() -> Vec<PathBuf> {
        let files = BUILT_IN.files().map(include_dir::File::path);
        let mut names: Vec<PathBuf> = files.map(|path| path.with_extension("")).collect();
        names.sort();
        names
    }

    /// The files of a folder that may be experiments, by name.
    ///
    /// # Errors
    /// A folder that cannot be read.
    pub fn files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
        let entries = std::fs::read_dir(folder)
            .with_context(|| format!("cannot read {}", folder.display()))?;
        let mut paths: Vec<PathBuf> =
            entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
        paths.sort();
        Ok(paths)
    }

    /// Reads the text of a file called `name`.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn parse(name: &str, text: &str) -> anyhow::Result<Self> {
        let hint = "compare it with those in experiments/";
        let experiment: Self =
            toml::from_str(text).map_err(|error| located::error(name, text, &error, hint))?;
        if experiment.workload.is_empty() {
            return Err(usage(format!("{name}: nothing to run"), "name workloads"));
        }
        let programs = experiment.workload.iter().filter_map(|workload| workload.programs);
        for (what, number, most) in [
            ("seeds", experiment.seeds, MOST_SEEDS),
            ("quick_seeds", experiment.quick_seeds, MOST_SEEDS),
            (
                "programs",
                programs.chain([experiment.programs]).max().unwrap_or(1).into(),
                MOST_PROGRAMS,
            ),
            ("samples", experiment.samples, MOST_SAMPLES),
        ] {
            if number > most {
                return Err(usage(
                    format!("{name}: {what} = {number}"),
                    format!("the most is {most}"),
                ));
            }
        }
        if experiment.fast.is_empty() != experiment.policies.is_empty() {
            let what = format!("{name}: policies need sizes of fast memory, and these policies");
            return Err(usage(what, "name both, or neither to look at the workloads alone"));
        }
        if experiment.workload.iter().any(|w| w.fast.is_some()) && experiment.fast.len() != 1 {
            let what = format!("{name}: workloads have a size of their own, and others several");
            return Err(usage(what, "give one size in fast"));
        }
        experiment.result.iter().try_for_each(ResultOf::check_cannot)?;
        Ok(experiment)
    }

    /// Results that are computed: all but those that cannot be shown.
    pub fn results(&self) -> impl Iterator<Item = &ResultOf> {
        self.result.iter().filter(|result| result.cannot.is_none())
    }

    /// Machine models, at least one.
    pub fn machines(&self) -> &[String] {
        if self.machines.is_empty() { std::slice::from_ref(&self.machine) } else { &self.machines }
    }

    /// Sizes of fast memory.
    ///
    /// # Errors
    /// A size that is none.
    pub fn sizes(&self) -> anyhow::Result<Vec<FastSize>> {
        self.fast.iter().map(|text| size(text)).collect()
    }

    /// A workload, as often as it runs at once, on one of the machines.
    ///
    /// # Errors
    /// A size of fast memory that is none; parameters that the machine has not.
    pub fn programs(
        &self,
        workload: &Workload,
        machine: &Machine,
        quick: bool,
    ) -> anyhow::Result<Programs> {
        Ok(Programs {
            trace: workload.trace(quick).to_owned(),
            copies: workload.programs.unwrap_or(self.programs).max(1),
            beside: workload.beside.iter().map(|other| other.trace(quick).to_owned()).collect(),
            beside_after: match &workload.beside {
                Some(other) => spec::parse_ratio(&other.after)?,
                None => 0.0,
            },
            limit: workload.cl.map(ConsolidationLimit::Pages),
            guest_memory: workload.guest_memory.as_deref().map(multiple).transpose()?,
            fast: workload.fast.as_deref().map(size).transpose()?,
            scale: match workload.stands_for.as_ref().or(self.stands_for.as_ref()) {
                Some(size) => Some(Scale::Of(spec::parse_bytes(size)?)),
                None => None,
            },
            machine: match &workload.machine {
                Some(params) => Some(machine.with(params)?),
                None => None,
            },
        })
    }

    /// Kinds of virtual machines.
    ///
    /// # Errors
    /// One that is none.
    pub fn guests(&self) -> anyhow::Result<Vec<GuestSetup>> {
        Ok(frostline_study::guests(&self.guest.join(","))?.to_vec())
    }

    /// Every policy in every virtual machine, as results name them.
    ///
    /// # Errors
    /// A policy or virtual machine that is none.
    pub fn labels(&self) -> anyhow::Result<Vec<String>> {
        Ok(frostline_study::labels(&self.policies()?, &self.guests()?))
    }

    /// Policies, groups taken apart.
    ///
    /// # Errors
    /// A policy that is none.
    pub fn policies(&self) -> anyhow::Result<Vec<String>> {
        if self.policies.is_empty() {
            return Ok(Vec::new());
        }
        let mut policies = registry::expand(&self.policies)?;
        for of_map in self.map.iter().flat_map(MapOf::policies).flatten() {
            if !policies.contains(&of_map) {
                policies.push(of_map);
            }
        }
        Ok(policies)
    }

    /// Least number of points in the series of a run: enough between two changes to tell when the run
    /// has recovered.
    pub fn series_points(&self) -> usize {
        let points = |result: &ResultOf| {
            let between = (1.0 - result.since?) / f64::from(result.changes?.max(1));
            Some((POINTS_BETWEEN_CHANGES / between.max(1e-4)).ceil() as usize)
        };
        let most = self.results().filter_map(points).max();
        most.unwrap_or_default().max(SERIES_POINTS)
    }

    /// Whether results are made of the series of every seed, not of the first alone.
    pub fn wants_every_series(&self) -> bool {
        self.results().any(|result| result.since.is_some())
    }

    /// Whether a result or chart tells how huge pages of a workload are used.
    pub fn wants_huge_pages(&self, workload: &str) -> bool {
        let result = |r: &ResultOf| r.measure.is_of_workload() && r.is_for(workload);
        let chart = |c: &Chart| c.kind == ChartKind::HugePages && names(&c.workloads, workload);
        self.results().any(result) || self.chart.iter().any(chart)
    }

    /// Checks that results and charts are about what is run.
    ///
    /// # Errors
    /// A result or chart about another workload, size or policy, or with keys that do not fit it.
    pub fn check(&self, policies: &[String]) -> anyhow::Result<()> {
        let workloads: Vec<&str> = self.workload.iter().map(|w| w.name.as_str()).collect();
        let sizes: Vec<&str> = self.fast.iter().map(String::as_str).collect();
        let policies: Vec<&str> = policies.iter().map(String::as_str).collect();
        let known = |kind: &str, name: &str, names: &[&str]| {
            if names.contains(&name) {
                return Ok(());
            }
            let SpecError { what, hint } = SpecError::unknown(kind, name, names);
            Err(usage(what, hint.unwrap_or_default()))
        };
        for result in &self.result {
            result.workloads.iter().try_for_each(|w| known("workload", w, &workloads))?;
            result.fast.iter().try_for_each(|size| known("size", size, &sizes))?;
            let machines: Vec<&str> = self.machines().iter().map(String::as_str).collect();
            result.machines.iter().try_for_each(|m| known("machine", m, &machines))?;
            let runs = [&workloads[..], &sizes[..], &machines[..]].concat();
            let mut published = result.paper.iter().flat_map(Published::names);
            published.try_for_each(|name| known("workload, size or machine", name, &runs))?;
            if result.cannot.is_some() {
                continue;
            }
            if !result.measure.is_of_workload() {
                known("policy", &result.of, &policies)?;
            }
            for over in result.over.iter().flat_map(|over| over.names()) {
                if over != OTHERS {
                    known("policy", over, &policies)?;
                }
            }
            result.measure.check(result)?;
        }
        for map in &self.map {
            for parameter in [&map.down, &map.across] {
                if parameter.values.is_empty() {
                    let what =
                        format!("map \"{}\": {} has no values", map.what, parameter.parameter);
                    return Err(usage(what, "add values = [...]"));
                }
            }
            map.over
                .iter()
                .flat_map(|over| over.names())
                .try_for_each(|p| known("policy", p, &policies))?;
            map.measure.check(&map.result(&map.of))?;
        }
        for heatmap in &self.heatmap {
            known("policy", &heatmap.of, &policies)?;
            heatmap.workloads.iter().try_for_each(|w| known("workload", w, &workloads))?;
            heatmap.fast.iter().try_for_each(|size| known("size", size, &sizes))?;
        }
        for chart in &self.chart {
            chart.check()?;
            chart.workloads.iter().try_for_each(|w| known("workload", w, &workloads))?;
            chart.fast.iter().try_for_each(|size| known("size", size, &sizes))?;
            chart.policies.iter().try_for_each(|policy| known("policy", policy, &policies))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = "title = \"t\"\npaper = \"p\"\nabout = \"a\"\nfast = [\"1:8\"]\n\
        policies = \"memtis,first-touch\"\n[[workload]]\nname = \"w\"\ntrace = \"synth:zipf\"\n";

    #[test]
    fn what_is_wrong_is_said_with_its_line_and_a_hint() {
        let result = "[[result]]\nwhat = \"x\"\nmeasure = \"gain\"\nof = \"memtis\"\n";
        for (more, words) in [
            ("[[workload]]\nname = \"v\"\n", "e.toml:9: missing field `trace`"),
            ("colour = 1\n", "unknown key"),
            (&*format!("{result}paper = \"much\"\n"), "e.toml:13"),
        ] {
            let error = Experiment::parse("e.toml", &format!("{SMALL}{more}")).unwrap_err();
            let text = format!("{error:#}");
            assert!(text.contains(words), "{text}");
        }
        let all: Vec<String> = vec!["memtis".into(), "first-touch".into()];
        for (more, words) in [
            ("", "over"),
            ("over = \"first-tuch\"\n", "first-touch"),
            ("over = \"first-touch\"\nfast = [\"1:9\"]\n", "size"),
            ("over = \"first-touch\"\nworkloads = [\"v\"]\n", "workload"),
            ("over = \"first-touch\"\nsince = 0.5\n", "since"),
            ("over = \"first-touch\"\npaper = { v = 1 }\n", "workload, size or machine"),
        ] {
            let file = Experiment::parse("e.toml", &format!("{SMALL}{result}{more}")).unwrap();
            let text = format!("{:#}", file.check(&all).unwrap_err());
            assert!(text.contains(words), "{text}");
        }
        for (more, words) in [
            ("title = \"c\"\nkind = \"classes\"\n", "needs policies"),
            ("title = \"c\"\nkind = \"over-time\"\npolicies = [\"memtis\"]\n", "needs numbers"),
            ("title = \"c\"\nkind = \"huge-pages\"\nfast = [\"1:8\"]\n", "no use for fast"),
            ("title = \"c\"\nkind = \"classes\"\npolicies = [\"memtis-nw\"]\n", "memtis-nw"),
        ] {
            let file = Experiment::parse("e.toml", &format!("{SMALL}[[chart]]\n{more}")).unwrap();
            let text = format!("{:#}", file.check(&all).unwrap_err());
            assert!(text.contains(words), "{text}");
        }
        for (more, words) in [
            ("of = \"memtis-nw\"\n", "memtis-nw"),
            ("of = \"memtis\"\nworkloads = [\"v\"]\n", "workload"),
            ("of = \"memtis\"\nfast = [\"1:9\"]\n", "size"),
        ] {
            let text = format!("{SMALL}[[heatmap]]\ntitle = \"h\"\n{more}");
            let file = Experiment::parse("e.toml", &text).unwrap();
            let text = format!("{:#}", file.check(&all).unwrap_err());
            assert!(text.contains(words), "{text}");
        }
        let halves = SMALL.replace("fast = [\"1:8\"]\n", "");
        assert!(Experiment::parse("e.toml", &halves).is_err(), "policies without a size");
        let good = format!("{SMALL}{result}over = \"first-touch\"\npaper = [1, 2.5]\n");
        let file = Experiment::parse("e.toml", &good).unwrap();
        file.check(&all).unwrap();
        let published = |names: &[&str]| file.result[0].paper.as_ref()?.range(names);
        assert_eq!(published(&["w", "1:8"]), Some([1.0, 2.5]));
    }

    #[test]
    fn what_was_published_may_differ_by_run() {
        let text = format!(
            "{SMALL}[[result]]\nwhat = \"x\"\nmeasure = \"speedup\"\nof = \"memtis\"\n\
             [result.paper]\nw = {{ \"1:8\" = 2, \"1:4\" = [1, 3] }}\nv = 5\n"
        );
        let file = Experiment::parse("e.toml", &text).unwrap();
        let published = |names: &[&str]| file.result[0].paper.as_ref()?.range(names);
        assert_eq!(published(&["w", "1:8"]), Some([2.0; 2]));
        assert_eq!(published(&["w", "1:4"]), Some([1.0, 3.0]));
        assert_eq!(published(&["v", "1:4"]), Some([5.0; 2]));
        assert_eq!(published(&["w", "1:2"]), None);
        assert_eq!(published(&["u", "1:8"]), None);
    }

    #[test]
    fn the_repositorys_experiments_fit_together() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../experiments");
        let mut read = 0;
        for path in Experiment::files(&folder).unwrap() {
            let file = Experiment::read(&path).unwrap_or_else(|e| panic!("{e:#}"));
            let labels = file.labels().unwrap_or_else(|e| panic!("{e:#}"));
            file.check(&labels).unwrap_or_else(|e| panic!("{}: {e:#}", path.display()));
            file.sizes().unwrap_or_else(|e| panic!("{}: {e:#}", path.display()));
            let machine = Machine::parse(&file.machines()[0]).unwrap();
            for workload in &file.workload {
                file.programs(workload, &machine, false).unwrap_or_else(|e| panic!("{e:#}"));
                let beside = workload.beside.as_ref();
                let beside = beside.map(|other| [other.trace(false), other.trace(true)]);
                let own = [workload.trace(false), workload.trace(true)];
                for trace in own.into_iter().chain(beside.into_iter().flatten()) {
                    frostline_workloads::from_spec(trace).unwrap_or_else(|e| panic!("{e}"));
                }
            }
            read += 1;
        }
        assert!(read >= 4, "{read}");
    }
}
