//! Palette of policies: each has the same colour in every chart.

use frostline_study::is_reference;

/// How a policy is drawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    /// Class of lines: colour and dashes.
    pub stroke: String,
    /// Class of areas.
    pub fill: String,
}

/// Colours that can be told apart by everybody; references are grey.
pub struct Palette {
    looks: Vec<(String, Look)>,
}

const COLOURS: usize = 6;
/// Kinds of lines of policies, solid first, and of references.
const DASHES: usize = 6;
const DOTS: usize = 3;

impl Palette {
    /// For policies in the order in which the user named them.
    pub fn new<'a>(policies: impl Iterator<Item = &'a str>) -> Self {
        let (mut coloured, mut grey) = (0, 0);
        let mut looks: Vec<(String, Look)> = Vec::new();
        for spec in policies {
            if looks.iter().any(|(known, _)| known == spec) {
                continue;
            }
            let look = if is_reference(spec) {
                grey += 1;
                Look::new("ref", DASHES + (grey - 1) % DOTS)
            } else {
                coloured += 1;
                let index = coloured - 1;
                // Every one has a kind of line of its own, too: those that cover each other are seen.
                Look::new(&(index % COLOURS).to_string(), (index + index / COLOURS) % DASHES)
            };
            looks.push((spec.to_owned(), look));
        }
        Self { looks }
    }

    /// Of a policy that was named.
    pub fn look(&self, spec: &str) -> Look {
        let found = self.looks.iter().find(|(known, _)| known == spec);
        found.map_or_else(|| Look::new("ref", 0), |(_, look)| look.clone())
    }
}

impl Look {
    fn new(colour: &str, dash: usize) -> Self {
        let dash = if dash == 0 { String::new() } else { format!(" d{dash}") };
        Self { stroke: format!("s{colour}{dash}"), fill: format!("f{colour}") }
    }
}

#[cfg(test)]
mod sight;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_looks_different() {
        let names: Vec<String> = (0..12).map(|i| format!("p{i}")).collect();
        let specs = names.iter().map(String::as_str).chain(["first-touch", "all-fast", "all-slow"]);
        let palette = Palette::new(specs.clone());
        let looks: std::collections::BTreeSet<String> =
            specs.map(|spec| palette.look(spec).stroke).collect();
        assert_eq!(looks.len(), 15);
        assert_eq!(palette.look("p0").stroke, "s0");
        assert_eq!(palette.look("first-touch").stroke, "sref d6");
    }
}
