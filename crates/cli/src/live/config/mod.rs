//! The daemon's configuration: a TOML file in which every key is known and every value is checked
//! before anything begins.

mod target;
#[cfg(test)]
mod tests;
mod values;

use frostline_core::Foreign;
use frostline_core::consolidation::ConsolidationLimit;
use frostline_core::spec::SpecError;
use frostline_core::types::Bytes;
use frostline_driver::options::too_much;
use frostline_driver::owner::Owner;
use frostline_driver::{Limit, Options, Selection, Size, SlowTier, SlowTiers, Written};
use frostline_linux::Root;
use frostline_linux::groups::GroupName;
use frostline_linux::process;
use frostline_linux::process::users::User;
use frostline_terminal::errors::{ResultExt, usage};
use frostline_terminal::located;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use toml::Spanned;
pub use values::Interval;

/// Where nothing better is known about a mistake.
const HINT: &str = "`frostline daemon config show` prints a complete file to compare with";

/// Users that are named in one line.
const MOST_SHOWN: usize = 4;

/// Where it is looked for where no other place is named.
pub const PLACE: &str = "/etc/frostline/frostline.toml";

/// All of it, with defaults filled in.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Config {
    /// What concerns all targets.
    pub daemon: Daemon,
    /// Whom the numbers are told.
    pub metrics: Metrics,
    /// Programs to manage; no two of the same name.
    #[serde(rename = "target")]
    pub targets: Vec<Target>,
}

/// What concerns all targets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Daemon {
    /// Fast memory for all targets together; without it each has what its own `fast` says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fast: Option<Written<Size>>,
    /// What is taken out of fast memory, of all targets together, in its place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub save: Option<Written<Size>>,
    /// Address of this machine at which browsers see all targets.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "values::page")]
    pub web: Option<String>,
    /// File with more targets, which another program writes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub include: Option<PathBuf>,
}

impl Daemon {
    /// Fast memory for all targets together.
    pub fn total(&self) -> Option<Limit> {
        let saved = self.save.as_deref().map(|save| Limit::AllBut(save.bytes()));
        saved.or(self.fast.as_deref().map(|fast| Limit::Size(fast.bytes())))
    }

    /// What is wrong with it.
    fn contradiction(&self) -> Option<SpecError> {
        let save = self.save.as_ref()?;
        if self.fast.is_some() {
            let what = "[daemon] has both fast and save, which say the same in two ways";
            return Some(SpecError::new(what, "take one of them out"));
        }
        let memory = process::total_memory(&Root::system()).unwrap_or(Bytes::MAX);
        too_much(save.bytes(), memory)
    }
}

/// Whom the numbers are told, beyond `frostline status`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Metrics {
    /// Address of this machine on which Prometheus may ask.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "values::loopback")]
    pub listen: Option<String>,
    /// File for the textfile collector of the node exporter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub textfile: Option<PathBuf>,
}

/// A program, or several, with one policy and one limit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Target {
    /// As `status` and metrics show it.
    pub name: String,
    /// One process, by its number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// All processes of a cgroup.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<GroupName>,
    /// All processes of a program, by its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Whose processes these are, by name or number, or `*`; none for those of who runs the daemon.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Also the processes that they start.
    pub children: bool,
    /// What is asked of tiering.
    #[serde(flatten)]
    pub options: Options,
    /// Hot pages are gathered, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consolidate: Option<Consolidate>,
    /// From 1, which gives way first, to 100.
    pub priority: u8,
    /// So many times its loss counts where targets share fast memory by their goals, above 0.
    #[serde(skip_serializing_if = "is_one")]
    pub weight: f64,
}

/// Gathering of scattered hot pages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table, such as { every = \"30s\" }")]
pub struct Consolidate {
    /// From how many hot pages on a region is dense.
    #[serde(with = "values::limit")]
    pub hot_pages: ConsolidationLimit,
    /// From the end of a round to the next.
    pub every: Written<Interval>,
    /// The library is brought into programs that were started without it.
    pub inject: bool,
}

impl Default for Consolidate {
    fn default() -> Self {
        let every = values::INTERVAL.parse().unwrap_or_else(|error: SpecError| panic!("{error}"));
        Self { hot_pages: ConsolidationLimit::Auto, every, inject: false }
    }
}

/// As it stands in a file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    daemon: Daemon,
    #[serde(default)]
    metrics: Metrics,
    #[serde(default)]
    target: Vec<Spanned<Target>>,
}

impl File {
    fn parse(name: &str, text: &str) -> anyhow::Result<Self> {
        let file: Self = read(name, text)?;
        let Some(SpecError { what, hint }) = file.daemon.contradiction() else { return Ok(file) };
        let key = text.lines().position(|line| line.trim_start().starts_with("save"));
        let line = key.map_or(1, |line| line + 1);
        Err(usage(format!("{name}:{line}: {what}"), hint.unwrap_or_default()))
    }
}

/// What is included: targets alone.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Included {
    #[serde(default)]
    target: Vec<Spanned<Target>>,
}

fn read<T: DeserializeOwned>(name: &str, text: &str) -> anyhow::Result<T> {
    toml::from_str(text).map_err(|error| located::error(name, text, &error, HINT))
}

/// Targets of a file, each with where it stands.
fn placed(name: &str, text: &str, targets: Vec<Spanned<Target>>) -> Vec<(String, Target)> {
    let place =
        |target: &Spanned<Target>| format!("{name}:{}", located::line(text, target.span().start));
    targets.into_iter().map(|target| (place(&target), target.into_inner())).collect()
}

impl Config {
    /// Reads a file, and the one that it includes, where that is there.
    ///
    /// # Errors
    /// Where one cannot be read, has unknown keys or wrong values, or contradicts itself or the other; the file
    /// and the line are named.
    pub fn load(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path).or_hint(
            format!("cannot read {}", path.display()),
            "name the file with -c; `frostline daemon config show` prints one to start from",
        )?;
        let name = path.display().to_string();
        let file = File::parse(&name, &text)?;
        let included = file.daemon.include.as_deref().map(included).transpose()?.flatten();
        Self::of(&name, &text, file, included.as_ref())
    }

    /// Reads text alone; `name` goes into messages.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn parse(name: &str, text: &str) -> anyhow::Result<Self> {
        Self::of(name, text, File::parse(name, text)?, None)
    }

    fn of(
        name: &str,
        text: &str,
        file: File,
        included: Option<&(String, String)>,
    ) -> anyhow::Result<Self> {
        let mut all = placed(name, text, file.target);
        if let Some((name, text)) = included {
            all.extend(placed(name, text, read::<Included>(name, text)?.target));
        }
        let (places, targets): (Vec<String>, Vec<Target>) = all.into_iter().unzip();
        let config = Self { daemon: file.daemon, metrics: file.metrics, targets };
        match config.contradiction() {
            None => Ok(config),
            Some((target, what, hint)) => Err(usage(format!("{}: {what}", places[target]), hint)),
        }
    }

    /// How many targets there are, in words.
    pub fn count(&self) -> String {
        match self.targets.len() {
            1 => "1 target".into(),
            n => format!("{n} targets"),
        }
    }

    /// The first target that cannot be as it is, what is wrong with it, and what helps.
    fn contradiction(&self) -> Option<(usize, String, String)> {
        let mut names = BTreeMap::new();
        let mut zram: Option<(&str, SlowTier)> = None;
        for (index, target) in self.targets.iter().enumerate() {
            let name = &target.name;
            let wrong = |what: String, hint: &str| Some((index, what, hint.to_owned()));
            if name.is_empty() {
                return wrong("a target without a name".into(), "`frostline status` shows it");
            }
            if names.insert(name, index).is_some() {
                return wrong(format!("two targets are named '{name}'"), "choose another name");
            }
            let ways = [target.pid.is_some(), target.cgroup.is_some(), target.command.is_some()];
            if ways.iter().filter(|given| **given).count() != 1 {
                return wrong(
                    format!(
                        "target '{name}' says in {} ways who it is",
                        ways.map(u8::from).iter().sum::<u8>()
                    ),
                    "give one of pid = 4711, cgroup = \"system.slice/redis.service\" and command = \"redis-server\"",
                );
            }
            if target.command.as_deref() == Some("") {
                return wrong(format!("target '{name}' has an empty command"), "redis-server");
            }
            if target.user.is_some() && target.command.is_none() {
                return wrong(
                    format!("target '{name}' names a user, and is not given by a command"),
                    "take the line out: a process or a cgroup is whoever it is",
                );
            }
            if target.pid == Some(0) {
                return wrong(format!("target '{name}' has no process 0"), "numbers begin at 1");
            }
            let memory = process::total_memory(&Root::system()).unwrap_or(Bytes::MAX);
            if let Some(SpecError { what, hint }) = target.options.excess(memory) {
                return wrong(format!("target '{name}': {what}"), &hint.unwrap_or_default());
            }
            let (slow, limit) = (&target.options.slow, &target.options.limit);
            if slow.is_none() && limit.is_some() {
                let hint = "say where: slow = [\"node:1\", \"zram\"]";
                return wrong(
                    format!("target '{name}' limits slow tiers that it leaves open"),
                    hint,
                );
            }
            let limited = slow.as_ref().map(|slow| slow.limited(limit.as_deref())).transpose();
            let slow = match limited {
                Ok(slow) => slow.unwrap_or(SlowTiers::NONE),
                Err(SpecError { what, hint }) => {
                    return Some((
                        index,
                        format!("target '{name}': {what}"),
                        hint.unwrap_or_default(),
                    ));
                }
            };
            let Some(mut slow) = slow.zram().cloned() else { continue };
            if let SlowTier::Zram { spills, .. } = &mut slow {
                *spills = false;
            }
            match &zram {
                Some((other, set)) if *set != slow => {
                    return wrong(
                        format!("targets '{other}' and '{name}' want different zram devices"),
                        "all targets share one: give it the same size and algorithm everywhere",
                    );
                }
                _ => zram = Some((name, slow)),
            }
        }
        None
    }
}

/// Name and text of what is included; none where it is not there.
fn included(path: &Path) -> anyhow::Result<Option<(String, String)>> {
    let read = || {
        // A pipe would be waited for.
        if !std::fs::metadata(path)?.is_file() {
            return Err(io::Error::other("not a file"));
        }
        std::fs::read_to_string(path)
    };
    match read() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        read => {
            let text = read.or_hint(
                format!("cannot read {}", path.display()),
                "`include` names it; it holds [[target]] sections alone",
            )?;
            Ok(Some((path.display().to_string(), text)))
        }
    }
}

fn is_one(weight: &f64) -> bool {
    *weight == 1.0
}

impl Target {
    /// Whom to manage.
    pub fn selection(&self) -> Selection {
        match (self.pid, &self.cgroup, &self.command) {
            (Some(pid), ..) => Selection::Process { pid, tree: self.children },
            (None, Some(group), _) => Selection::Cgroup(group.clone()),
            (None, None, name) => Selection::Command {
                name: name.clone().unwrap_or_default(),
                owner: self.owner(),
                tree: self.children,
            },
        }
    }

    /// Whose processes have its command. A user who was there when the file was read and is not any more has none.
    fn owner(&self) -> Owner {
        let gone = || Owner::User(User { id: u32::MAX, name: Foreign::default() });
        let named = |name: &String| Owner::parse(name).unwrap_or_else(|_| gone());
        self.user.as_ref().map_or_else(Owner::own, named)
    }

    /// Who it is, where it is given by a command, and whose processes of that name are left alone now.
    pub fn who(&self, root: &Root) -> Option<String> {
        let command = self.command.as_deref()?;
        let started = if self.children { ", and what they start" } else { "" };
        let name = Foreign::from(command);
        let who = format!("processes of {} named {name}{started}", self.owner());
        Some(match self.namesakes(root) {
            Some(others) => format!("{who}; {others}"),
            None => who,
        })
    }

    /// Says whose processes have the name of its command, and are left alone now.
    pub fn namesakes(&self, root: &Root) -> Option<String> {
        let users = self.selection().namesakes(root).ok()?;
        let shown =
            users.iter().take(MOST_SHOWN).map(User::to_string).collect::<Vec<_>>().join(", ");
        let more = if users.len() > MOST_SHOWN { " and others" } else { "" };
        let one = users.first()?;
        Some(format!("those of {shown}{more} are left alone: user = \"{}\" takes them", one.name))
    }

    /// Whether the two differ in nothing but what can be changed while they are managed.
    pub fn differs_in_limits_only(&self, other: &Self) -> bool {
        let mut same = Self { priority: other.priority, weight: other.weight, ..self.clone() };
        same.options.fast = other.options.fast.clone();
        // Without a size there is a goal, which is kept to in another way.
        same == *other && self.options.goal().is_some() == other.options.goal().is_some()
    }
}
