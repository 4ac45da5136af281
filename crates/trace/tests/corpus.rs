//! The decoder over the fuzzer's corpus and over random mutations of it.

mod corpus_check;

use corpus_check::check;
use frostline_core::rng::Rng;
use std::path::Path;

fn corpus() -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/trace_decode");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .expect("the corpus is part of the repository")
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.display().to_string(), std::fs::read(&path).unwrap()))
        .collect();
    files.sort();
    files
}

#[test]
fn the_corpus_is_read() {
    let mut good = 0;
    for (name, bytes) in corpus() {
        let [as_is, _] = check(&bytes);
        match (as_is, name.contains("good-")) {
            (Ok(content), true) => good += usize::from(!content.accesses.is_empty()),
            (Err(error), true) => panic!("{name}: {error}"),
            (Ok(_), false) => panic!("{name}: was damaged, and is read as good"),
            (Err(_), false) => {}
        }
    }
    assert!(good >= 3, "the corpus has good traces");
}

#[test]
fn mutations_are_survived() {
    let files = corpus();
    let (mut behind_checksums, mut refused) = (0, 0);
    let mut rng = Rng::new(0x5eed);
    for _ in 0..4000 {
        let (_, bytes) = &files[rng.below(files.len() as u64) as usize];
        let mut bytes = bytes.clone();
        for _ in 0..=rng.below(4) {
            mutate(&mut bytes, &mut rng);
        }
        match check(&bytes) {
            [_, Err(_)] => refused += 1,
            [Err(_), Ok(_)] => behind_checksums += 1,
            [Ok(_), Ok(_)] => {}
        }
    }
    println!("seed 0x5eed: {refused} refused, {behind_checksums} good but for their checksums");
    assert!(behind_checksums > 50 && refused > 500, "{behind_checksums} {refused}");
}

fn mutate(bytes: &mut Vec<u8>, rng: &mut Rng) {
    let at = |rng: &mut Rng, len: usize| rng.below(len as u64 + 1) as usize;
    let len = bytes.len();
    match rng.below(6) {
        0 => bytes.truncate(at(rng, len)),
        1 if len > 0 => {
            let from = at(rng, len - 1);
            let to = (from + at(rng, 40)).min(len);
            let piece = bytes[from..to].to_vec();
            let into = at(rng, len);
            bytes.splice(into..into, piece);
        }
        2 if len > 0 => {
            let from = at(rng, len - 1);
            bytes.drain(from..(from + at(rng, 40)).min(len));
        }
        _ if len > 0 => {
            let place = at(rng, len - 1);
            bytes[place] = match rng.below(3) {
                0 => 0xff,
                1 => bytes[place] ^ 1 << rng.below(8),
                _ => rng.next_u64() as u8,
            };
        }
        _ => bytes.push(rng.next_u64() as u8),
    }
}
