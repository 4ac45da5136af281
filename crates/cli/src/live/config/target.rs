//! A target as it stands in a file, read key by key, so that every error has the line of its key.

use super::{Target, values};
use frostline_driver::Options;
use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, Visitor};
use std::fmt;

/// Between the two ends.
const PRIORITY: u8 = 50;

/// All that a target can have.
const KEYS: &[&str] = &[
    "name",
    "pid",
    "cgroup",
    "command",
    "user",
    "children",
    "policy",
    "fast",
    "min_fast",
    "max_slowdown",
    "slow",
    "limit",
    "cpu_limit",
    "settling_cpu_limit",
    "samples",
    "migration_limit",
    "priority",
    "weight",
    "dry_run",
    "consolidate",
];

/// One of them.
struct Key(&'static str);

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let known = KEYS.iter().find(|key| **key == text);
        known.map(|key| Self(key)).ok_or_else(|| D::Error::unknown_field(&text, KEYS))
    }
}

/// Where the value of a key goes.
struct Place<'a>(&'a mut Target, Key);

impl<'de> DeserializeSeed<'de> for Place<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        let Self(target, Key(key)) = self;
        match key {
            "name" => target.name = values::name(from)?,
            "pid" => target.pid = values::pid(from)?,
            "cgroup" => target.cgroup = Deserialize::deserialize(from)?,
            "command" => target.command = values::command(from)?,
            "user" => target.user = values::user(from)?,
            "children" => target.children = Deserialize::deserialize(from)?,
            "weight" => target.weight = values::weight(from)?,
            "priority" => target.priority = values::priority(from)?,
            "consolidate" => target.consolidate = Some(Deserialize::deserialize(from)?),
            key => target.options.set(key, from)?,
        }
        Ok(())
    }
}

struct Keys;

impl<'de> Visitor<'de> for Keys {
    type Value = Target;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a target")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Target, A::Error> {
        let mut target = Target {
            name: String::new(),
            pid: None,
            cgroup: None,
            command: None,
            user: None,
            children: true,
            options: Options::default(),
            consolidate: None,
            priority: PRIORITY,
            weight: 1.0,
        };
        let mut has_name = false;
        while let Some(key) = map.next_key::<Key>()? {
            has_name |= key.0 == "name";
            map.next_value_seed(Place(&mut target, key))?;
        }
        if has_name { Ok(target) } else { Err(A::Error::missing_field("name")) }
    }
}

impl<'de> Deserialize<'de> for Target {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(Keys)
    }
}
