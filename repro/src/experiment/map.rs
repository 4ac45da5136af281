//! A result over two parameters of a policy.

use super::file::{Over, ResultOf};
use super::measure::{Measure, values};
use frostline_study::Study;
use frostline_study::stats::Stat;
use serde::{Deserialize, Serialize};

/// What is to be computed for each pair of values.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MapOf {
    /// What it says, in a few words.
    pub what: String,
    /// Policy whose parameters vary.
    pub of: String,
    /// A row for each value.
    pub down: Parameter,
    /// A column for each value.
    pub across: Parameter,
    /// How it is computed.
    pub measure: Measure,
    /// Policy that it is compared with.
    pub over: Option<Over>,
    /// Number of a run, for measures that are not about speed.
    pub number: Option<String>,
}

/// A parameter of a policy, and its values.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Parameter {
    /// Its name.
    pub parameter: String,
    /// As a policy's description has them.
    pub values: Vec<String>,
}

/// The results, over all workloads and seeds, at the first size of fast memory.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Map {
    /// What it says.
    pub what: String,
    /// Unit of its values.
    pub unit: &'static str,
    /// A row for each value.
    pub down: Parameter,
    /// A column for each value.
    pub across: Parameter,
    /// Means, by row; none where a run has no such number.
    pub rows: Vec<Vec<Option<f64>>>,
}

impl MapOf {
    /// Descriptions of the policy, by row.
    pub fn policies(&self) -> Vec<Vec<String>> {
        let Self { of, down, across, .. } = self;
        let one = |y: &String, x: &String| {
            format!("{of}:{}={y}:{}={x}", down.parameter, across.parameter)
        };
        down.values.iter().map(|y| across.values.iter().map(|x| one(y, x)).collect()).collect()
    }

    /// The result for one of them.
    pub fn result(&self, of: &str) -> ResultOf {
        ResultOf {
            what: self.what.clone(),
            of: of.to_owned(),
            over: self.over.clone(),
            number: self.number.clone(),
            ..ResultOf::new(self.measure)
        }
    }

    /// What came out.
    pub fn draw(&self, study: &Study) -> Map {
        let cell = |of: &String| {
            let result = self.result(of);
            let sizes = study.traces.iter().filter_map(|trace| trace.sizes.first());
            let all: Option<Vec<Vec<f64>>> = sizes.map(|size| values(&result, size)).collect();
            Some(Stat::of(all?.into_iter().flatten()).mean)
        };
        Map {
            what: self.what.clone(),
            unit: self.measure.unit(),
            down: self.down.clone(),
            across: self.across.clone(),
            rows: self.policies().iter().map(|row| row.iter().map(cell).collect()).collect(),
        }
    }
}

impl Map {
    /// What it says, with the unit.
    pub fn title(&self) -> String {
        format!("{} ({}), mean of the workloads", self.what, self.unit)
    }

    /// Headings, and rows that begin with what they are about.
    pub fn table(&self) -> (Vec<String>, Vec<Vec<String>>) {
        let Self { down, across, .. } = self;
        let named = |of: &Parameter, value: &String| format!("{}={value}", of.parameter);
        let first = std::iter::once(String::new());
        let headings = first.chain(across.values.iter().map(|value| named(across, value)));
        let show = |cell: &Option<f64>| cell.map_or("-".to_owned(), |value| format!("{value:.1}"));
        let row = |(value, cells): (&String, &Vec<Option<f64>>)| {
            std::iter::once(named(down, value)).chain(cells.iter().map(show)).collect()
        };
        (headings.collect(), down.values.iter().zip(&self.rows).map(row).collect())
    }
}
