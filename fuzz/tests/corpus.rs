//! Every target, without a fuzzer: on what its folder of the corpus holds, on its seeds, and on mutations of both.

use frostline_core::rng::Rng;
use frostline_fuzz::mutate::mutate;
use frostline_fuzz::{TARGETS, Target, pass_over_caught_panics};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// Mutations per target.
const MUTATIONS: usize = 1000;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

fn names(folder: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// What there is for a target, with names.
fn inputs(target: &Target) -> Vec<(String, Vec<u8>)> {
    let folder = folder().join(target.name);
    let files = names(&folder).into_iter().map(|name| {
        let bytes = std::fs::read(folder.join(&name)).unwrap();
        (format!("corpus/{}/{name}", target.name), bytes)
    });
    let seeds = (target.seeds)().into_iter().enumerate();
    files.chain(seeds.map(|(i, seed)| (format!("seed {i} of {}", target.name), seed))).collect()
}

fn check(target: &Target, name: &str, bytes: &[u8]) {
    let result = catch_unwind(AssertUnwindSafe(|| target.run(bytes)));
    assert!(result.is_ok(), "{name}: {}", bytes.escape_ascii());
}

#[test]
fn every_target_has_a_folder_of_the_corpus_and_nobody_else() {
    let targets: BTreeSet<String> = TARGETS.iter().map(|target| target.name.to_owned()).collect();
    assert_eq!(targets.len(), TARGETS.len(), "no two have the same name");
    assert_eq!(names(&folder()), targets);
}

/// One test for all: the limit of memory is that of the whole process.
#[test]
fn the_corpus_and_mutations_of_it_are_survived() {
    pass_over_caught_panics();
    for target in TARGETS {
        let inputs = inputs(target);
        for (name, bytes) in &inputs {
            check(target, name, bytes);
        }
        let mut rng = Rng::new(0x5eed);
        for number in 0..MUTATIONS {
            let (name, bytes) = &inputs[rng.below(inputs.len() as u64) as usize];
            let mut bytes = bytes.clone();
            mutate(&mut bytes, &mut rng);
            check(target, &format!("mutation {number}, of {name}"), &bytes);
        }
        println!("{}: {} files and seeds, {MUTATIONS} mutations", target.name, inputs.len());
    }
}

#[test]
fn dictionaries_are_what_libfuzzer_reads() {
    let target = TARGETS.iter().find(|target| target.name == "environment").unwrap();
    let dictionary = target.dictionary();
    assert!(dictionary.starts_with("\"\\x00\"\n\"FROSTLINE=\"\n"), "{dictionary}");
}
