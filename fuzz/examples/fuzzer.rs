//! All targets in one program for libFuzzer. The variable `FROSTLINE_FUZZ` names the target; arguments are
//! libFuzzer's. With `FROSTLINE_FUZZ_LIST` it prints the names of all targets, and with `FROSTLINE_FUZZ_SEEDS` it
//! writes the target's seeds to that folder, and its dictionary beside that, as `words`.
#![no_main]

use frostline_fuzz::{TARGETS, Target, find};
use libfuzzer_sys::fuzz_target;
use std::path::Path;
use std::sync::OnceLock;

static CHOSEN: OnceLock<Target> = OnceLock::new();

fn choose() -> Target {
    let name = std::env::var("FROSTLINE_FUZZ").unwrap_or_default();
    find(&name).unwrap_or_else(|| panic!("FROSTLINE_FUZZ: there is no target '{name}'"))
}

fn write_seeds(folder: &Path) -> std::io::Result<()> {
    let target = choose();
    for (number, seed) in (target.seeds)().iter().enumerate() {
        std::fs::write(folder.join(number.to_string()), seed)?;
    }
    std::fs::write(folder.with_file_name("words"), target.dictionary())
}

fn begin() {
    if std::env::var_os("FROSTLINE_FUZZ_LIST").is_some() {
        TARGETS.iter().for_each(|target| println!("{}", target.name));
        std::process::exit(0);
    }
    if let Some(folder) = std::env::var_os("FROSTLINE_FUZZ_SEEDS") {
        let written = write_seeds(Path::new(&folder));
        std::process::exit(written.map_or_else(|error| panic!("seeds: {error}"), |()| 0));
    }
    frostline_fuzz::pass_over_caught_panics();
}

fuzz_target!(init: begin(), |bytes: &[u8]| CHOSEN.get_or_init(choose).run(bytes));
