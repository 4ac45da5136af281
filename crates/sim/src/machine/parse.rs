//! Descriptions of machines: `dram-nvm`, `dram-nvm:mlp=8:costs.split_ns=1us`, `box.toml:cores=4`.

use super::Machine;
use super::presets::{PRESETS, preset};
use crate::error::SimError;
use frostline_core::params::{Kind, Param, Value};
use frostline_core::spec::{Spec, SpecError};
use std::path::Path;

/// Short names of the parameters that are changed most.
const SHORT: &[(&str, &str)] = &[
    ("cores", "cpu.cores"),
    ("lanes", "cpu.lanes"),
    ("fragmentation", "os.fragmentation"),
    ("ghz", "cpu.ghz"),
    ("ipc", "cpu.ipc"),
    ("mlp", "cpu.mlp"),
    ("prefetch", "cpu.prefetch"),
    ("thp", "os.thp"),
    ("watermark", "os.low_watermark"),
    ("workers", "cpu.workers"),
];

impl Machine {
    /// Names and one-line descriptions of the presets.
    pub fn presets() -> impl Iterator<Item = (&'static str, &'static str)> {
        PRESETS.iter().copied()
    }

    /// From `NAME:key=value:...`, where `NAME` is a preset or the path of a TOML file, and a key is
    /// a short name (`mlp`, `thp`) or a path in the description (`costs.split_ns`,
    /// `tiers.nvm.read_ns`). Spans and sizes take units.
    ///
    /// # Errors
    /// Unknown machine, key or value, each with a hint; a file that cannot be read.
    pub fn parse(text: &str) -> Result<Self, SimError> {
        // A path holds what no name of the grammar may hold.
        let (name, params) = text.split_once(':').unwrap_or((text, ""));
        let spec = Spec::parse_params(params)?;
        let machine = match preset(name) {
            Some(machine) => machine,
            None if looks_like_file(name) => Self::from_file(Path::new(name))?,
            None => {
                let known: Vec<&str> = PRESETS.iter().map(|(name, _)| *name).collect();
                return Err(SpecError::unknown("machine", name, &known).into());
            }
        };
        let machine = machine.with_params(&spec)?;
        machine.validate()?;
        Ok(machine)
    }

    /// From TOML text. `name` goes into messages and, without one in the text, into reports.
    ///
    /// # Errors
    /// Text that is not TOML, unknown keys, a machine that contradicts itself.
    pub fn from_toml(name: &str, text: &str) -> Result<Self, SimError> {
        let fail = |what: String| SimError::Machine {
            name: name.to_owned(),
            what,
            hint: "`frostline list machines dram-nvm` prints a complete description".into(),
        };
        let mut table: toml::Table = toml::from_str(text).map_err(|e| fail(e.to_string()))?;
        table.entry("name").or_insert_with(|| toml::Value::String(name.to_owned()));
        let machine: Self = table.try_into().map_err(|e: toml::de::Error| fail(e.to_string()))?;
        machine.validate()?;
        Ok(machine)
    }

    /// The whole description as TOML, for [`Self::from_toml`], with what each value does.
    pub fn to_toml(&self) -> String {
        let mut out = String::new();
        let mut part = String::new();
        for line in toml::to_string(self).unwrap_or_default().lines() {
            if let Some(section) = line.strip_prefix('[') {
                let each = if section.starts_with('[') { ".*." } else { "." };
                part = section.trim_matches(['[', ']']).to_owned() + each;
            } else if let Some((key, _)) = line.split_once(" = ") {
                let name = format!("{part}{key}");
                let about =
                    Self::params().find(|param| param.name == name).map(|param| param.about);
                about
                    .into_iter()
                    .flat_map(str::lines)
                    .for_each(|line| out += &format!("#{line}\n"));
            }
            out += line;
            out.push('\n');
        }
        out
    }

    fn from_file(path: &Path) -> Result<Self, SimError> {
        let text = std::fs::read_to_string(path).map_err(|source| SimError::MachineFile {
            path: path.to_owned(),
            source,
            presets: PRESETS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", "),
        })?;
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        Self::from_toml(&stem, &text)
    }

    /// With other values of some parameters, `key=value:...`, as [`Self::parse`] takes them.
    ///
    /// # Errors
    /// As there.
    pub fn with(&self, params: &str) -> Result<Self, SimError> {
        let machine = self.clone().with_params(&Spec::parse_params(params)?)?;
        machine.validate()?;
        Ok(machine)
    }

    fn with_params(self, spec: &Spec) -> Result<Self, SimError> {
        if spec.pairs().next().is_none() {
            return Ok(self);
        }
        let fail =
            |what: String, hint: String| SimError::Machine { name: self.name.clone(), what, hint };
        let Ok(toml::Value::Table(mut table)) = toml::Value::try_from(&self) else {
            return Err(fail("cannot be described".into(), "use a TOML file".into()));
        };
        let mut name = self.name.clone();
        for (key, text) in spec.pairs() {
            let path = SHORT.iter().find(|(short, _)| *short == key).map_or(key, |(_, path)| path);
            let Some(slot) = find(&mut table, path) else {
                let known = paths(&table);
                let known: Vec<&str> = SHORT
                    .iter()
                    .map(|(short, _)| *short)
                    .chain(known.iter().map(String::as_str))
                    .collect();
                return Err(SpecError::unknown("machine parameter", key, &known).into());
            };
            *slot = value(path, text)?;
            name += &format!(":{key}={text}");
        }
        table.insert("name".into(), toml::Value::String(name));
        toml::Value::Table(table).try_into().map_err(|e: toml::de::Error| {
            fail(e.to_string(), "`frostline list machines dram-nvm` prints valid values".into())
        })
    }
}

fn looks_like_file(name: &str) -> bool {
    name.contains('/') || name.ends_with(".toml")
}

/// The value at `section.key`, or at `tiers.NAME.key`.
fn find<'t>(table: &'t mut toml::Table, path: &str) -> Option<&'t mut toml::Value> {
    let (section, rest) = path.split_once('.')?;
    match table.get_mut(section)? {
        toml::Value::Table(inner) => inner.get_mut(rest),
        toml::Value::Array(tiers) => {
            let (tier, key) = rest.split_once('.')?;
            let tier = tiers
                .iter_mut()
                .filter_map(toml::Value::as_table_mut)
                .find(|t| t.get("name").and_then(toml::Value::as_str) == Some(tier))?;
            match key {
                "capacity_bytes" => Some(tier.entry(key).or_insert(toml::Value::Integer(0))),
                "service_ns" => Some(tier.entry(key).or_insert(toml::Value::Float(0.0))),
                _ => tier.get_mut(key),
            }
        }
        _ => None,
    }
}

fn paths(table: &toml::Table) -> Vec<String> {
    let mut all = Vec::new();
    for (section, value) in table {
        match value {
            toml::Value::Table(inner) => {
                all.extend(inner.keys().map(|key| format!("{section}.{key}")));
            }
            toml::Value::Array(tiers) => {
                for tier in tiers.iter().filter_map(toml::Value::as_table) {
                    let name = tier.get("name").and_then(toml::Value::as_str).unwrap_or_default();
                    all.extend(tier.keys().map(|key| format!("{section}.{name}.{key}")));
                }
            }
            _ => {}
        }
    }
    all
}

/// Parameter of a path in a description: that of `tiers.nvm.read_ns` is `tiers.*.read_ns`.
fn param(path: &str) -> Option<&'static Param> {
    let every = path.strip_prefix("tiers.").and_then(|rest| rest.rsplit_once('.'));
    let every = every.map(|(_, key)| format!("tiers.*.{key}"));
    Machine::params().find(|param| param.name == every.as_deref().unwrap_or(path))
}

fn value(path: &str, text: &str) -> Result<toml::Value, SpecError> {
    let kind = param(path).map_or(Kind::Text, |param| param.kind);
    if kind == Kind::Text {
        return Ok(toml::Value::String(text.to_owned()));
    }
    Ok(match Value::read(kind, text, 0.0)? {
        Value::Switch(on) => toml::Value::Boolean(on),
        Value::Word(word) => toml::Value::String(word.to_owned()),
        Value::Number(number) => toml::Value::Float(number),
        Value::Integer(number) => toml::Value::Integer(i64::try_from(number).unwrap_or(i64::MAX)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_a_file_and_takes_parameters() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a machine.toml");
        let written = Machine::parse("dram-cxl").unwrap();
        std::fs::write(&path, written.to_toml()).unwrap();
        let text = path.to_str().unwrap();
        let read = Machine::parse(text);
        let changed = Machine::parse(&format!("{text}:mlp=2"));
        assert_eq!(read.unwrap(), written);
        assert_eq!(changed.unwrap().cpu.mlp, 2.0);
    }

    #[test]
    fn every_value_of_a_description_is_a_parameter_and_the_defaults_are_of_their_kinds() {
        let machine = Machine::parse("dram-nvm").unwrap();
        let Ok(toml::Value::Table(table)) = toml::Value::try_from(&machine) else { panic!() };
        let paths = paths(&table);
        assert!(paths.len() > 50);
        for path in &paths {
            let param = param(path).unwrap_or_else(|| panic!("{path} is no parameter"));
            assert!(machine.to_toml().contains(param.about.lines().next().unwrap()), "{path}");
        }
        for param in Machine::params().filter(|param| !param.default.is_empty()) {
            Value::read(param.kind, param.default, 0.0).expect(param.name);
        }
        for (bad, why) in [
            ("os.fragmentation=2", "not a share"),
            ("workers=mine", "unknown choice `mine`"),
            ("costs.split_ns=-1", "out of range"),
            ("costs.split_ns=1e13", "out of range"),
            ("cores=many", "many"),
        ] {
            let error = Machine::parse(&format!("dram-nvm:{bad}")).unwrap_err().to_string();
            assert!(error.contains(why), "{bad}: {error}");
        }
    }

    #[test]
    fn a_missing_file_and_a_colon_without_parameters_are_errors() {
        let error = Machine::parse("/nonexistent/box.toml").unwrap_err();
        assert!(matches!(error, SimError::MachineFile { .. }), "{error}");
        assert!(Machine::parse("").is_err());
        assert!(Machine::parse("dram-cxl:mlp").is_err());
    }
}
