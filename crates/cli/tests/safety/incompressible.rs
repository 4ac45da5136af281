//! Memory that does not compress, beside some that does.

use crate::load::load_program;
use crate::support::{EAGER, Run, longer_until, run, text};
use crate::system::{System, number};
use std::path::Path;

/// Two loads of 48 MiB; the pages of the first are random, those of the second compress 3 to 1.
fn both(seconds: u32) -> Run {
    let load = "--size 48MiB --hot 20% --cold-rate 20/s --checksums --seconds";
    let load = format!("'{}' {load} {seconds}", load_program().display());
    let script = format!(
        "{load} --compressible 1 >/dev/null & noise=$!; {load} --json; code=$?; wait $noise && exit $code"
    );
    let options = format!("--slow zram:size=256MiB --fast 40% {EAGER}");
    run(&options, Path::new("/bin/sh"), &["-c", &script])
}

#[test]
fn what_does_not_compress_is_left_alone_and_told() {
    let Some(system) = System::take() else { return };
    let left = |run: &Run| number(&run.summary["unmanaged"], "incompressible_bytes");
    let swapped = |run: &Run| number(&run.summary["tiers"][1], "used_bytes");
    let seen = |run: &Run| left(run) > 24 << 20 && swapped(run) > 8 << 20;
    let run = longer_until(12, both, seen);
    run.whole();
    assert!(seen(&run), "{:#}", run.summary);
    assert!(left(&run) <= 52 << 20, "of the random pages alone: {:#}", run.summary);
    // Random pages would have saved nothing. Beside what compresses lie copies of what has come back since.
    let saved = number(&run.summary, "saved_bytes");
    assert!(saved > swapped(&run) / 4, "{:#}", run.summary);
    let told = text(&run.output.stderr);
    assert!(told.contains("not managed: ") && told.contains("incompressible "), "{told}");
    system.finish();
}
