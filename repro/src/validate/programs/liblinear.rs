//! liblinear-train on data of the shape of KDD Cup 2012, track 2.

use super::laws::{Zipf, normal, shuffled};
use super::recipe::{Loading, Plan, Recipe, missing_program, version_of};
use frostline_core::rng::Rng;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

const PROGRAM: &str = "liblinear-train";
const PACKAGE: &str = "liblinear-tools";

/// A data set; features are popular by Zipf's law, popular ones anywhere. Which rows are clicks
/// follows from hidden weights, so that there is something to learn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Liblinear {
    rows: u32,
    features: u32,
    per_row: usize,
    skew: f64,
    /// Share of the rows that are clicks.
    clicks: f64,
}

/// 149.6 M rows, 54.7 M features, 11 values in a row there.
pub(super) const KDD: Liblinear =
    Liblinear { rows: 290_000, features: 106_000, per_row: 11, skew: 0.99, clicks: 0.045 };

impl Recipe for Liblinear {
    fn missing(&self) -> Option<String> {
        missing_program(PROGRAM, PACKAGE)
    }

    fn version(&self) -> anyhow::Result<String> {
        // The program does not say.
        version_of(&["dpkg-query", "-W", PACKAGE])
    }

    fn prepare(&self, dir: &Path) -> anyhow::Result<Plan> {
        let data = dir.join("data");
        let mut out = BufWriter::new(File::create(&data)?);
        self.write(&mut out)?;
        out.flush()?;
        let mut command = vec![PROGRAM.into(), "-s".into(), "1".into()];
        command.extend([data.into_os_string(), dir.join("model").into_os_string()]);
        Ok(Plan { command, driver: None, loading: Loading::LastMapping })
    }

    fn texts(&self) -> &'static [&'static str] {
        // What was counted from the end of the file's reading is another recording.
        &["the solver alone"]
    }
}

impl Liblinear {
    #[cfg(test)]
    pub(super) const fn small(self) -> Self {
        Self { rows: 5000, features: 1800, ..self }
    }

    fn write(self, out: &mut impl Write) -> anyhow::Result<()> {
        let mut rows = Rows::new(self);
        let mut scores: Vec<f64> = (0..SAMPLE).map(|_| rows.next()).collect();
        scores.sort_unstable_by(f64::total_cmp);
        let least = scores[((1.0 - self.clicks) * SAMPLE as f64) as usize];
        let value = 1.0 / (self.per_row as f64).sqrt();
        for _ in 0..self.rows {
            let clicked = rows.next() >= least;
            write!(out, "{}", if clicked { "+1" } else { "-1" })?;
            for feature in &rows.features {
                write!(out, " {}:{value:.6}", feature + 1)?;
            }
            writeln!(out)?;
        }
        Ok(())
    }
}

/// Rows that decide how high the score of a click is.
const SAMPLE: usize = 4096;

/// Draws rows.
struct Rows {
    per_row: usize,
    law: Zipf,
    number: Vec<u32>,
    hidden: Vec<f64>,
    rng: Rng,
    /// Of the row drawn last, ascending.
    features: Vec<u32>,
}

impl Rows {
    fn new(shape: Liblinear) -> Self {
        let mut rng = Rng::new(1);
        let law = Zipf::new(shape.features, shape.skew);
        let number = shuffled(shape.features, &mut rng);
        let hidden = (0..shape.features).map(|_| normal(&mut rng)).collect();
        Self { per_row: shape.per_row, law, number, hidden, rng, features: Vec::new() }
    }

    /// Draws a row; its score.
    fn next(&mut self) -> f64 {
        self.features.clear();
        while self.features.len() < self.per_row {
            let feature = self.number[self.law.draw(&mut self.rng) as usize];
            if !self.features.contains(&feature) {
                self.features.push(feature);
            }
        }
        self.features.sort_unstable();
        let score: f64 = self.features.iter().map(|&f| self.hidden[f as usize]).sum();
        score + 3.0 * normal(&mut self.rng)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_the_shape_of_the_source_and_are_the_same_every_time() {
        let small = KDD.small();
        let [mut one, mut other] = [Vec::new(), Vec::new()];
        small.write(&mut one).unwrap();
        small.write(&mut other).unwrap();
        assert_eq!(one, other);
        let text = String::from_utf8(one).unwrap();
        let mut clicks = 0;
        for line in text.lines() {
            let mut words = line.split(' ');
            clicks += u32::from(words.next() == Some("+1"));
            let features: Vec<u32> =
                words.map(|word| word.split_once(':').unwrap().0.parse().unwrap()).collect();
            assert!(features.len() == 11 && features.windows(2).all(|two| two[0] < two[1]));
            assert!(features.iter().all(|f| (1..=1800).contains(f)));
        }
        assert_eq!(text.lines().count(), 5000);
        assert!((150..=300).contains(&clicks), "{clicks}");
    }
}
