//! Entry of a policy in the table: how it is called, what it takes, how it is made.

use super::contract::{BoxedPolicy, PageSize, PolicyError};
use super::facts::Facts;
use super::offer::Offer;
use super::pages;
use super::settings::Settings;
use super::suited::{Suited, Suits};
use crate::params::Param;
use crate::spec::Spec;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// What a policy is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Group {
    /// Online policies that one would choose between; what `all` stands for.
    Principal,
    /// Policies with parts switched off or changed, to see what the parts do.
    Variants,
    /// References without tiering, and the systems that publications compare with.
    Baselines,
    /// Policies that know the future: bounds, simulator only.
    Offline,
}

impl Group {
    /// Every group.
    pub const ALL: [Self; 4] = [Self::Principal, Self::Variants, Self::Baselines, Self::Offline];

    /// As in lists of policies.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Principal => "principal",
            Self::Variants => "variants",
            Self::Baselines => "baselines",
            Self::Offline => "offline",
        }
    }
}

/// One policy: how it is called, what it is, how it is made.
pub struct Entry {
    /// Name in specs.
    pub name: &'static str,
    /// What it is for.
    pub group: Group,
    /// One line.
    pub summary: &'static str,
    /// Where it comes from.
    pub citation: &'static str,
    /// Size of pages with which its source was published; `None` is the machine's.
    pub pages: Option<PageSize>,
    /// Parameters of its own.
    pub(super) params: &'static [Param],
    /// Defaults that replace those of [`Self::params`] (variants).
    pub preset: &'static [(&'static str, &'static str)],
    /// Defaults for what the world offers, where those of the table do not suit it.
    pub(super) suits: Suits,
    /// What the world has to know of it, which its parameters may decide.
    pub(super) facts: fn(&Settings) -> Facts,
    pub(super) build: fn(&Settings, &Offer) -> Result<BoxedPolicy, PolicyError>,
}

impl Entry {
    /// Its parameters with the defaults of the table, presets included.
    pub fn params(&self) -> impl Iterator<Item = Param> {
        let own = self.params.iter().copied().chain([pages::param(self.pages)]);
        own.map(|param| {
            let preset = self.preset.iter().find(|(key, _)| *key == param.name);
            preset.map_or(param, |&(_, default)| Param { default, ..param })
        })
    }

    /// Makes the policy that `spec` describes, whose name is this entry's.
    ///
    /// # Errors
    /// As [`make`](super::make).
    pub(super) fn make(&self, spec: &Spec, offer: &Offer) -> Result<Made, PolicyError> {
        let settings = self.read(spec, offer)?;
        Ok(Made {
            policy: (self.build)(&settings, offer)?,
            facts: self.facts(&settings),
            name: settings.name().to_string(),
            config: settings.config(),
        })
    }

    /// What is known of the policy that `spec` describes before it is made.
    ///
    /// # Errors
    /// As [`make`](super::make), but for the oracle.
    pub(super) fn terms(&self, spec: &Spec, offer: &Offer) -> Result<Terms, PolicyError> {
        let settings = self.read(spec, offer)?;
        Ok(Terms {
            facts: self.facts(&settings),
            name: settings.name().to_string(),
            departures: settings.departures().to_vec(),
            insisted: settings.insisted().to_vec(),
        })
    }

    /// The policy with its defaults, for others that build on it.
    pub(super) fn plain(&self, offer: &Offer) -> Result<BoxedPolicy, PolicyError> {
        Ok(self.make(&Spec::parse(self.name)?, offer)?.policy)
    }

    fn facts(&self, settings: &Settings) -> Facts {
        Facts { base_pages: pages::base(settings), ..(self.facts)(settings) }
    }

    /// Reads its parameters.
    pub(super) fn read(&self, spec: &Spec, offer: &Offer) -> Result<Settings, PolicyError> {
        offer.check()?;
        let mut suited = (self.suits)(offer);
        suited.extend(pages::suits(self.pages, offer));
        Ok(Settings::read(spec, self.params(), &suited, offer)?)
    }
}

/// What is known of a policy before it is made.
#[derive(Clone, Debug)]
pub struct Terms {
    /// What the world has to know of it.
    pub facts: Facts,
    /// Its name with the parameters that differ from the defaults of the table: the same policy in
    /// any world.
    pub name: String,
    /// Defaults that are not those of the table, since something else suits the world.
    pub departures: Vec<Suited>,
    /// What would suit the world, had the user not written another value.
    pub insisted: Vec<Suited>,
}

/// A policy ready for an engine, and what is known of it.
pub struct Made {
    /// The policy.
    pub policy: BoxedPolicy,
    /// What the world has to know of it.
    pub facts: Facts,
    /// Its name with the parameters that differ from their defaults, as a user would write it.
    pub name: String,
    /// Every parameter with its effective value (after scaling), as a user would write it.
    pub config: Vec<(&'static str, String)>,
}

impl Made {
    /// A policy that no table lists.
    pub fn unlisted(name: &str, policy: BoxedPolicy, facts: Facts) -> Self {
        Self { policy, facts, name: name.to_string(), config: Vec::new() }
    }
}
