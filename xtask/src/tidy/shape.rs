//! Shape of types: how many fields one has, and in how many files its behaviour stands.

use super::code::{Code, Names};
use super::problem::Problem;
use std::collections::{BTreeMap, BTreeSet};
use syn::{Item, ItemImpl, ItemStruct, Type};

/// Fields of a struct with behaviour, at most.
const MOST_FIELDS: usize = 15;
/// Files in which the `impl` blocks of a type stand, at most.
const MOST_FILES: usize = 2;
/// Derived for records: what is read or written field by field, and arguments of a command line.
const RECORDS: [&str; 4] = ["Serialize", "Deserialize", "Args", "Parser"];

/// A struct: the file that defines it, and its name.
type Place = (usize, String);

/// Structs with behaviour that are too large.
pub fn shapes(code: &[Code]) -> Vec<Problem> {
    let names = Names::new(code);
    let mut structs: BTreeMap<Place, usize> = BTreeMap::new();
    let mut behaviour: BTreeMap<Place, BTreeSet<usize>> = BTreeMap::new();
    for (file, part) in code.iter().enumerate() {
        for item in &part.items {
            if let Item::Struct(item) = item
                && !is_record(item)
            {
                structs.insert((file, item.ident.to_string()), item.fields.len());
            }
        }
    }
    for (file, part) in code.iter().enumerate() {
        for item in &part.items {
            if let Item::Impl(item) = item
                && let Some(path) = implemented(item)
                && let Some(name) = path.last().cloned()
            {
                let own = structs.contains_key(&(file, name.clone()));
                let place = if own { Some(file) } else { names.find(file, &path) };
                let place = place.map(|place| (place, name));
                place.map(|place| behaviour.entry(place).or_default().insert(file));
            }
        }
    }
    let mut found = Vec::new();
    for (place, fields) in &structs {
        let Some(files) = behaviour.get(place) else { continue };
        let mut problem = |what| {
            found.push(Problem { path: code[place.0].path.clone(), line: 0, what });
        };
        if *fields > MOST_FIELDS {
            problem(format!(
                "{} has behaviour and {fields} fields, {MOST_FIELDS} at most",
                place.1
            ));
        }
        if files.len() > MOST_FILES {
            let files: Vec<&str> = files.iter().map(|file| &*code[*file].path).collect();
            problem(format!("the behaviour of {} stands in {}", place.1, files.join(", ")));
        }
    }
    found
}

/// The type to which a block adds methods.
fn implemented(item: &ItemImpl) -> Option<Vec<String>> {
    match (&item.trait_, &*item.self_ty) {
        (None, Type::Path(path)) => {
            Some(path.path.segments.iter().map(|part| part.ident.to_string()).collect())
        }
        _ => None,
    }
}

fn is_record(item: &ItemStruct) -> bool {
    let derives = item.attrs.iter().filter(|attribute| attribute.path().is_ident("derive"));
    let text = |attribute: &syn::Attribute| match &attribute.meta {
        syn::Meta::List(list) => list.tokens.to_string(),
        _ => String::new(),
    };
    derives
        .map(text)
        .any(|text| text.split(|c: char| !c.is_alphanumeric()).any(|name| RECORDS.contains(&name)))
}

#[cfg(test)]
mod tests {
    use super::super::code::read;
    use super::super::files::Tree;
    use super::*;

    #[test]
    fn structs_with_many_fields_and_behaviour_in_many_places() {
        let manifest = ("crates/x/Cargo.toml", "[package]\nname = \"x\"\n");
        let fields: String = (0..16).map(|field| format!("f{field}: u8,")).collect();
        let large = format!("pub struct A {{ {fields} }}");
        let found = |a: &str, b: &str, c: &str| {
            let files = [manifest, ("crates/x/src/a.rs", a), ("crates/x/src/b.rs", b)];
            let files = [&files[..], &[("crates/x/src/c.rs", c)]].concat();
            let what = shapes(&read(&Tree::of(&files)));
            what.into_iter().map(|problem| problem.what).collect::<Vec<_>>()
        };
        assert_eq!(found(&large, "", ""), [""; 0], "data alone");
        let one = format!("{large} impl A {{}}");
        assert_eq!(found(&one, "", ""), ["A has behaviour and 16 fields, 15 at most"]);
        let record = format!("#[derive(Debug, Serialize)] {one}");
        assert_eq!(found(&record, "", ""), [""; 0], "a record");
        let small = "pub struct A; impl A {}";
        let other = "use crate::a::A; impl A {}";
        assert_eq!(found(small, other, ""), [""; 0]);
        assert_eq!(found(small, other, "struct A; impl A {}"), [""; 0], "a namesake");
        assert_eq!(
            found(small, other, "impl super::a::A {}"),
            [
                "the behaviour of A stands in crates/x/src/a.rs, crates/x/src/b.rs, crates/x/src/c.rs"
            ]
        );
    }
}
