//! Settings of an agent inside of a program, as one variable of its environment.

use crate::options::{self, Options, default};
use crate::written::{CpuShare, Written};
use frostline_core::consolidation::ConsolidationLimit;
use frostline_core::spec::SpecError;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};
use std::ffi::CStr;
use std::path::PathBuf;

/// Name of an agent's thread.
pub const AGENT_THREAD: &CStr = c"frostline-agent";
/// The variable: a JSON object, or a policy's text, which is short for `{"policy": "..."}`. Without it an
/// agent does nothing.
pub const VARIABLE: &str = "FROSTLINE";
/// Keys of the object beside those of [`Options`].
const KEYS: [&str; 5] = ["consolidate", "consolidate_cpu_limit", "children", "log", "status"];

/// Variables of former releases, each with the key that takes its place.
pub fn superseded() -> impl Iterator<Item = (String, &'static str)> {
    let newer = ["policy", "dry_run", "min_fast", "max_slowdown", "consolidate_cpu_limit"];
    let keys = Options::KEYS.iter().copied().chain(KEYS).filter(move |key| !newer.contains(key));
    keys.map(|key| (format!("{VARIABLE}_{}", key.to_uppercase()), key))
}

/// What an agent is asked for.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Settings {
    /// Of tiering, where that is wanted.
    #[serde(flatten)]
    pub options: Option<Options>,
    /// Hot pages are gathered.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "show")]
    pub consolidate: Option<ConsolidationLimit>,
    /// Share of a core for that.
    pub consolidate_cpu_limit: Written<CpuShare>,
    /// What the program forks and executes is tiered, too.
    pub children: bool,
    /// A file that remarks are appended to, instead of the program's standard error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<PathBuf>,
    /// A folder in which every process keeps a file with its numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<PathBuf>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            options: None,
            consolidate: None,
            consolidate_cpu_limit: options::read(default::CPU_LIMIT),
            children: true,
            log: None,
            status: None,
        }
    }
}

fn show<S: Serializer>(limit: &Option<ConsolidationLimit>, to: S) -> Result<S::Ok, S::Error> {
    limit.map(|limit| limit.to_string()).serialize(to)
}

impl Settings {
    /// Reads the variable. Tiering is wanted where a policy is named.
    ///
    /// # Errors
    /// What is no JSON object, a key that there is not, and a value that cannot be; the key is named.
    pub fn read(text: &str) -> Result<Self, SpecError> {
        let mut settings = Self::default();
        let mut options = Options::default();
        let all = match text.starts_with('{') {
            true => serde_json::from_str::<Map<String, Value>>(text).map_err(|error| {
                let hint =
                    "write {\"policy\": \"hybridtier\", \"fast\": \"40%\"}, or a policy alone";
                SpecError::new(format!("{VARIABLE} is no JSON object: {error}"), hint)
            })?,
            false => Map::from_iter([("policy".to_owned(), text.into())]),
        };
        let tiers = all.contains_key("policy");
        for (key, value) in all {
            let set = match &*key {
                "consolidate" => String::deserialize(value).and_then(|text| {
                    let limit = ConsolidationLimit::parse(&text);
                    settings.consolidate = Some(limit.map_err(serde::de::Error::custom)?);
                    Ok(())
                }),
                "consolidate_cpu_limit" => Deserialize::deserialize(value)
                    .map(|share| settings.consolidate_cpu_limit = share),
                "children" => Deserialize::deserialize(value).map(|on| settings.children = on),
                "log" => Deserialize::deserialize(value).map(|path| settings.log = Some(path)),
                "status" => {
                    Deserialize::deserialize(value).map(|path| settings.status = Some(path))
                }
                known if Options::KEYS.contains(&known) => options.set(known, value),
                _ => {
                    let known: Vec<&str> = Options::KEYS.iter().chain(&KEYS).copied().collect();
                    let SpecError { what, hint } = SpecError::unknown("key", &key, &known);
                    return Err(SpecError { what: format!("{VARIABLE}: {what}"), hint });
                }
            };
            set.map_err(|error| SpecError::of_text(&format!("{VARIABLE}: {key}: {error}")))?;
        }
        settings.options = tiers.then_some(options);
        Ok(settings)
    }

    /// The variable's value.
    ///
    /// # Errors
    /// A path that is no text.
    pub fn text(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self)
    }
}

/// Value of a key of the variable, as it stands there, without memory of an allocator; `None` where it is not there.
/// What is wrong with the rest is not looked at.
pub fn field<'a>(variable: &'a str, key: &str) -> Option<&'a str> {
    if !variable.starts_with('{') {
        return (key == "policy").then_some(variable);
    }
    let bytes = variable.as_bytes();
    let (mut depth, mut at) = (0, 0);
    // Where the value begins whose key is the one.
    let mut value = None;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => {
                let begin = at + 1;
                at = begin + string_len(&bytes[begin..])?;
                let after = variable[at + 1..].trim_ascii_start();
                if depth == 1
                    && value.is_none()
                    && &bytes[begin..at] == key.as_bytes()
                    && let Some(rest) = after.strip_prefix(':')
                {
                    value = Some(bytes.len() - rest.len());
                    at = bytes.len() - rest.len() - 1;
                }
            }
            b',' | b'}' if depth == 1 => {
                if let Some(begin) = value {
                    return Some(variable[begin..at].trim_ascii());
                }
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            _ => {}
        }
        at += 1;
    }
    None
}

/// Bytes until the quotation mark that ends it.
fn string_len(text: &[u8]) -> Option<usize> {
    let mut escaped = false;
    text.iter().position(|byte| {
        let ends = *byte == b'"' && !escaped;
        escaped = *byte == b'\\' && !escaped;
        ends
    })
}

/// Text of a key of the variable, whatever is wrong with the rest; `None` where there is none, or an empty
/// one.
pub fn text(variable: &str, key: &str) -> Option<String> {
    let text: String = serde_json::from_str(field(variable, key)?).ok()?;
    Some(text).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_survive_the_way_through_the_environment() {
        let text = r#"{"policy":"hybridtier:momentum=2","fast":"1:8","slow":["node:1","zram:size=1GiB"],
            "limit":"node:1=30%","seed":12345,"extents":true,"journal":"/tmp/a \"journal\"",
            "consolidate":"auto","consolidate_cpu_limit":"3%","children":false,"log":"/l","status":"/s"}"#;
        let all = Settings::read(text).unwrap();
        assert_eq!(Settings::read(&all.text().unwrap()).unwrap(), all);
        let options = all.options.unwrap();
        assert_eq!(
            (options.seed, options.fast.unwrap().text(), all.children),
            (12_345, "1:8", false)
        );
        assert_eq!(all.consolidate, Some(ConsolidationLimit::Auto));
        assert_eq!(all.consolidate_cpu_limit.text(), "3%");
        let short = Settings::read("memtis:alpha=0.8").unwrap();
        assert_eq!(short, Settings::read(r#"{"policy": "memtis:alpha=0.8"}"#).unwrap());
        let none = Settings::read(r#"{"consolidate":"32"}"#).unwrap();
        assert_eq!(none.options, None);
        assert_eq!(
            none.text().unwrap(),
            r#"{"consolidate":"32","consolidate_cpu_limit":"1%","children":true}"#
        );
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        for (text, says) in [
            ("hybridtear", "FROSTLINE: policy: unknown policy"),
            ("", "FROSTLINE: policy: "),
            (r#"{"fast":"0%"}"#, "FROSTLINE: fast: '0%'"),
            (r#"{"fast":40}"#, "FROSTLINE: fast: invalid type"),
            (r#"{"slow":"zarm"}"#, "FROSTLINE: slow: unknown slow tier"),
            (r#"{"limit":"node:1"}"#, "FROSTLINE: limit: "),
            (r#"{"cpu_limit":"0"}"#, "FROSTLINE: cpu_limit: "),
            (r#"{"migration_limit":"x"}"#, "FROSTLINE: migration_limit: "),
            (r#"{"samples":"tea"}"#, "FROSTLINE: samples: "),
            (r#"{"seed":"y"}"#, "FROSTLINE: seed: "),
            (r#"{"children":"off"}"#, "FROSTLINE: children: "),
            (r#"{"consolidate":"0"}"#, "FROSTLINE: consolidate: "),
            (r#"{"consolidate_cpu_limit":"0"}"#, "FROSTLINE: consolidate_cpu_limit: "),
            (
                r#"{"polciy":"lru"}"#,
                "FROSTLINE: unknown key `polciy`\nhint: did you mean `policy`?",
            ),
            (r#"{"policy""#, "FROSTLINE is no JSON object: "),
        ] {
            let error = Settings::read(text).expect_err(text).to_string();
            assert!(error.starts_with(says), "{text}: {error}");
        }
    }

    #[test]
    fn fields_are_found_without_memory() {
        let object = r#"{ "slow": ["a", {"children": 1}], "x": "children\": false,",
            "children" : false , "log":"/a \"b\", }"}"#;
        assert_eq!(field(object, "children"), Some("false"));
        assert_eq!(field(object, "slow"), Some(r#"["a", {"children": 1}]"#));
        assert_eq!(text(object, "log").as_deref(), Some("/a \"b\", }"));
        assert_eq!((field(object, "a"), field(object, "policy")), (None, None));
        assert_eq!(field("memtis:alpha=1", "policy"), Some("memtis:alpha=1"));
        assert_eq!(field("memtis", "log"), None);
        for broken in ["{", "{\"", "{\"log\"", "{\"log\":", "{]]]]", "{}}}", "{\"log\":\"\\\""] {
            assert_eq!(field(broken, "log"), None, "{broken}");
        }
    }

    #[test]
    fn variables_of_former_releases_have_keys() {
        let all: Vec<(String, &str)> = superseded().collect();
        assert_eq!(all.len(), 15);
        assert!(all.contains(&("FROSTLINE_CPU_LIMIT".into(), "cpu_limit")));
    }
}
