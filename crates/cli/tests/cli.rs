//! The program as its users meet it: exit codes, messages, tables, JSON, series.

use assert_cmd::Command;
use assert_cmd::assert::Assert;
use serde_json::Value;
use std::process::{Command as StdCommand, Stdio};

/// Small, and skewed enough that there is something to promote.
const ZIPF: &str = "synth:zipf:pages=4K:accesses=200K";
/// Moves pages even in runs as short as these, without waiting for proof that it pays.
const EAGER: &str = "memtis";

fn frostline(args: &[&str]) -> Assert {
    Command::new(env!("CARGO_BIN_EXE_frostline")).args(args).assert()
}

/// `compare` with one run, for which it shows every number: memtis-plus, 1:8 fast.
fn single<'a>(args: &[&'a str]) -> Vec<&'a str> {
    let mut words = vec!["compare"];
    words.extend(args);
    for (option, value) in [("--policies", "memtis-plus"), ("--fast", "1:8")] {
        if !args.contains(&option) {
            words.extend([option, value]);
        }
    }
    words
}

fn stdout(assert: Assert) -> String {
    String::from_utf8(assert.get_output().stdout.clone()).unwrap()
}

fn stderr(assert: Assert) -> String {
    String::from_utf8(assert.get_output().stderr.clone()).unwrap()
}

fn json(args: &[&str]) -> Value {
    serde_json::from_str(&stdout(frostline(args).success())).unwrap()
}

/// Asserts on code and standard error, and that nothing came on standard output.
fn fails(args: &[&str], code: i32, says: &str, hints: &str) {
    let assert = frostline(args).code(code);
    assert!(assert.get_output().stdout.is_empty(), "{args:?}");
    let text = stderr(assert);
    assert!(text.starts_with("error: "), "{args:?}: {text}");
    assert!(text.contains(says), "{args:?}: {text}");
    assert!(text.contains("hint: ") && text.contains(hints), "{args:?}: {text}");
    assert_eq!(text.matches("hint: ").count(), 1, "{args:?}: {text}");
}

#[test]
fn wrong_usage_ends_with_2_and_a_hint() {
    fails(&single(&[ZIPF, "--policies", "memtsi"]), 2, "unknown policy `memtsi`", "`memtis`");
    fails(&single(&[ZIPF, "--policies", "memtis:aplha=1"]), 2, "unknown parameter", "`alpha`");
    fails(&single(&[ZIPF, "--fast", "1:x"]), 2, "not a size of fast memory", "1:8");
    fails(&single(&[ZIPF, "--machine", "dram-nvn"]), 2, "unknown machine", "`dram-nvm`");
    fails(&single(&[ZIPF, "--limit", "nvmm=1GiB"]), 2, "unknown tier", "`nvm`");
    fails(&single(&[ZIPF, "--series", "run.txt"]), 2, "run.txt", ".csv or .json");
    fails(&single(&["synth:zipff"]), 2, "unknown workload", "`zipf`");
    fails(&single(&["zipf:pages=4K"]), 2, "no trace file", "synth:zipf:pages=4K");
    fails(&["compare", ZIPF, "--policies", "memtis,nope"], 2, "`nope`", "known:");
    fails(&["list", "policies", "memtsi"], 2, "unknown policy", "memtis");
    fails(&["list", "machines", "dram"], 2, "unknown machine", "dram-nvm");
    let unknown = stderr(frostline(&["simulate"]).code(2));
    assert!(unknown.contains("unrecognized subcommand"), "{unknown}");
    frostline(&["compare"]).code(2);
    frostline(&["compare", ZIPF, "--seeds", "0"]).code(2);
    frostline(&["record", "--no-such-flag"]).code(125);
}

#[test]
fn what_cannot_be_read_or_written_ends_with_1_and_a_hint() {
    fails(&single(&["/nonexistent/a.flt"]), 1, "/nonexistent/a.flt", "frostline record");
    fails(&single(&["/tmp"]), 1, "is a folder", "trace file");
    let report = "/nonexistent/r.html";
    fails(&single(&[ZIPF, "--report", report]), 1, report, "folder that exists");
    let folder = tempfile::tempdir().unwrap();
    let foreign = folder.path().join("foreign.flt");
    std::fs::write(&foreign, b"GIF89a and so on, long enough to hold any header").unwrap();
    let text = stderr(frostline(&single(&[foreign.to_str().unwrap()])).code(1));
    assert!(text.contains("foreign.flt") && !text.contains("panicked"), "{text}");
}

#[test]
fn help_and_version_are_data() {
    let help = stdout(frostline(&["--help"]).success());
    assert!(help.contains("Examples:") && help.contains("compare"), "{help}");
    for command in ["compare", "list", "trace", "completions"] {
        let help = stdout(frostline(&[command, "--help"]).success());
        assert!(help.contains("Examples:"), "{command}: {help}");
    }
    assert_eq!(
        stdout(frostline(&["--version"]).success()),
        format!("frostline {}\n", env!("CARGO_PKG_VERSION"))
    );
}

#[test]
fn compare_prints_a_table_per_size() {
    let assert = frostline(&["compare", ZIPF, "--fast", "1:2,1:8"]).success();
    assert_eq!(assert.get_output().stderr, b"", "no progress where no terminal is");
    let text = stdout(assert);
    for part in [
        "trace    synth:zipf:pages=4K:accesses=200K\n",
        "machine  dram-nvm: dram 80 ns, nvm 300 ns\n",
        "scale    ",
        "seed     1\n",
        "fast 1:2 = ",
        "fast 1:8 = ",
        "bound: saves at most ",
        "gap ",
        "policy       fast hits  slowdown  of bound",
    ] {
        assert!(text.contains(part), "{part:?} in\n{text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    // Fastest first: all-fast leads.
    let tables: Vec<&str> = text.split("\nfast ").skip(1).collect();
    assert_eq!(tables.len(), 2);
    for table in tables {
        let rows = table.lines().skip_while(|line| !line.starts_with("  policy")).skip(1);
        let names: Vec<&str> = rows.filter_map(|line| line.split_whitespace().next()).collect();
        assert_eq!(names[0], "all-fast", "{table}");
        let place = |name: &str| names.iter().position(|n| *n == name).expect(table);
        assert!(place("memtis") < place("all-slow") && place("first-touch") < place("all-slow"));
    }
}

#[test]
fn pages_are_listed_and_a_comparison_says_who_had_base_pages_only() {
    let listed = json(&["list", "policies", "--json"]);
    let pages = |name: &str| {
        let mut runs = listed["runs"].as_array().unwrap().iter();
        runs.find(|policy| policy["name"] == name).unwrap()["pages"].clone()
    };
    assert_eq!(
        (pages("hybridtier"), pages("memtis"), pages("tpp")),
        ("base".into(), "huge".into(), "machine".into())
    );
    let policies = "hybridtier,memtis,hybridtier:pages=huge,memtis:pages=base";
    let args = ["compare", ZIPF, "-p", policies, "-f", "1:2", "--no-bound"];
    let text = stdout(frostline(&args).success());
    let line = text.lines().find(|line| line.contains("4 KiB pages only: ")).expect("a line");
    assert!(line.contains("hybridtier") && line.contains("memtis:pages=base"), "{line}");
    assert!(!line.contains("hybridtier:pages=huge"), "{line}");
    let runs = json(&[&args[..], &["--json"]].concat());
    for run in runs["runs"].as_array().unwrap() {
        let folios = run["counters"]["machine.huge_faults"].as_f64().unwrap();
        assert_eq!(folios > 0.0, run["policy_config"]["pages"] == "huge", "{run}");
    }
    let text = stdout(frostline(&[&args[..], &["-m", "dram-nvm:thp=off"]].concat()).success());
    assert!(!text.contains("4 KiB pages only"), "{text}");
}

#[test]
fn what_has_no_bound_says_why() {
    let text = stdout(frostline(&single(&[ZIPF, "--exits", "2"])).success());
    assert!(text.contains("share of bound n/a: injected exits"), "{text}");
    let zram = ["compare", ZIPF, "--machine", "dram-zram", "--policies", "first-touch"];
    let text = stdout(frostline(&zram).success());
    assert!(text.contains("share of bound n/a: swap model"), "{text}");
    let text = stdout(frostline(&single(&[ZIPF, "--no-bound"])).success());
    assert!(text.contains("share of bound n/a: not asked for"), "{text}");
}

#[test]
fn thinning_is_printed() {
    let text = stdout(frostline(&single(&[&format!("{ZIPF}:thin=4")])).success());
    assert!(text.contains("one record stands for 4 accesses"), "{text}");
}

#[test]
fn seeds_give_intervals() {
    let args = ["compare", ZIPF, "--policies", "memtis,all-slow", "--fast", "1:8", "--seeds", "3"];
    let text = stdout(frostline(&args).success());
    assert!(text.contains("seed     1 to 3: mean ± 95 % confidence interval"), "{text}");
    let memtis = text.lines().find(|line| line.starts_with("  memtis")).unwrap();
    assert_eq!(memtis.matches(" ±").count(), 3, "{memtis}");
    let runs = json(&[&args[..], &["--json"]].concat());
    let seeds: Vec<u64> =
        runs["runs"].as_array().unwrap().iter().map(|r| r["seed"].as_u64().unwrap()).collect();
    assert_eq!(seeds, [1, 2, 3, 1, 2, 3]);
    let hits = |i: usize| runs["runs"][i]["fast_hit_ratio"].as_f64().unwrap();
    assert!(hits(0) != hits(1), "another seed is another trace");
}

/// Every key of a run; one that changes or goes needs a new schema number.
const RUN_KEYS: &[&str] = &[
    "accesses",
    "bound_gap",
    "collapses",
    "counters",
    "demoted_bytes",
    "fast",
    "fast_bytes",
    "fast_bytes_mean",
    "fast_hit_ratio",
    "fast_pages_accessed_mean",
    "footprint_bytes",
    "good_put",
    "hint_faults",
    "host",
    "hotness_fragmentation",
    "machine",
    "metadata_bytes",
    "modelled_seconds",
    "op_latency_ns",
    "page_checks",
    "policy",
    "policy_config",
    "program_rss_bytes",
    "promoted_bytes",
    "sampler_cpu_share",
    "saving_ns",
    "scale",
    "seed",
    "share_of_bound",
    "slowdown_vs_all_fast",
    "speedup_vs_all_slow",
    "splits",
    "tiering_cpu_seconds",
    "tiers",
    "time_split",
    "trace",
];

fn keys(value: &Value) -> Vec<&str> {
    let mut keys: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys
}

#[test]
fn the_json_envelope_is_stable() {
    let value = json(&single(&[ZIPF, "--policies", EAGER, "--json"]));
    assert_eq!(keys(&value), ["command", "runs", "schema", "trace_sha256", "version"]);
    assert!(value["trace_sha256"][ZIPF].is_null(), "it is generated");
    assert_eq!(value["schema"], 1);
    assert_eq!(value["version"], env!("CARGO_PKG_VERSION"));
    let run = &value["runs"][0];
    assert_eq!(keys(run), RUN_KEYS);
    assert_eq!(keys(&run["time_split"]), ["app", "fault", "migrate", "scan"]);
    assert_eq!(keys(&run["host"]), ["peak_rss_bytes", "wall_seconds"]);
    assert_eq!((&run["policy"], &run["trace"]), (&EAGER.into(), &ZIPF.into()));
    assert_eq!(run["tiers"].as_array().unwrap().len(), 2);
    assert!(run["policy_config"].as_object().is_some_and(|config| !config.is_empty()));
    assert!(run["promoted_bytes"].as_u64().unwrap() > 0, "the policy has to do something");
}

#[test]
fn rows_of_csv_have_the_numbers_of_json_and_the_digest_of_the_trace() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a,b.flt");
    let trace = path.to_str().unwrap();
    let generator = ZIPF.strip_prefix("synth:").unwrap();
    frostline(&["-q", "trace", "synth", generator, "-o", trace]).success();
    let args =
        ["compare", trace, "--policies", "first-touch,all-slow", "--fast", "1:8", "--seeds", "2"];
    let value = json(&[&args[..], &["--json"]].concat());
    let text = stdout(frostline(&[&args[..], &["--csv"]].concat()));
    let rows: Vec<&str> = text.lines().collect();
    assert_eq!(rows.len(), 5, "{text}");
    let begin = "trace,trace_sha256,policy,machine,fast,seed,slowdown_vs_all_fast,accesses,";
    assert!(rows[0].starts_with(begin), "{}", rows[0]);
    let digest = value["trace_sha256"][trace].as_str().unwrap();
    assert_eq!(digest.len(), 64);
    for (row, run) in rows[1..].iter().zip(value["runs"].as_array().unwrap()) {
        let (policy, seed) = (run["policy"].as_str().unwrap(), &run["seed"]);
        let slowdown = &run["slowdown_vs_all_fast"];
        let start = format!("\"{trace}\",{digest},{policy},dram-nvm,1:8,{seed},{slowdown},");
        assert!(row.starts_with(&start), "{row}\n{start}");
    }
    frostline(&[&args[..], &["--csv", "--json"]].concat()).code(2);
}

#[test]
fn what_is_wrong_about_a_generator_is_said_before_the_output_is_missed() {
    fails(&["trace", "synth", "zipf:pages=64Q"], 2, "64Q", "pages");
    fails(&["trace", "synth", "zipf:pages=4K"], 2, "no trace to write", "-o");
}

#[test]
fn what_is_installed_is_found_where_programs_look_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let made = folder.path().join("target/release");
    std::fs::create_dir_all(&made).unwrap();
    let program = env!("CARGO_BIN_EXE_frostline");
    let install = |prefix: &str| {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/install");
        let mut command = std::process::Command::new(script);
        command.arg(prefix).arg(folder.path().join("root"));
        command.env("CARGO_TARGET_DIR", folder.path().join("target")).output().unwrap()
    };
    let early = install("/opt/f");
    let told = String::from_utf8_lossy(&early.stderr).into_owned();
    assert!(!early.status.success() && told.contains("hint: make build"), "{told}");
    for name in ["frostline", "frostline-repro"] {
        std::fs::copy(program, made.join(name)).unwrap();
    }
    std::fs::write(made.join("libfrostline_agent.so"), "").unwrap();
    let done = install("/opt/f");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let root = folder.path().join("root/opt/f");
    for file in [
        "bin/frostline",
        "bin/frostline-repro",
        "lib/libfrostline_agent.so",
        "share/man/man1/frostline.1",
        "share/bash-completion/completions/frostline",
        "share/zsh/site-functions/_frostline",
        "share/fish/vendor_completions.d/frostline.fish",
    ] {
        assert!(root.join(file).is_file(), "{file}");
    }
    let unit = std::fs::read_to_string(root.join("lib/systemd/system/frostline.service")).unwrap();
    assert!(unit.contains("\nExecStart=/opt/f/bin/frostline daemon "), "{unit}");
    assert!(!unit.contains("=frostline "), "{unit}");
}

#[test]
fn the_same_twice_is_the_same_but_for_host() {
    let run = |jobs: &str| {
        let policies = format!("memtis-plus,{EAGER},oracle-epoch,first-touch");
        let args = ["compare", ZIPF, "--policies", &policies, "--seeds"];
        let mut value = json(&[&args[..], &["2", "--json", "--jobs", jobs]].concat());
        for run in value["runs"].as_array_mut().unwrap() {
            assert!(run.as_object_mut().unwrap().remove("host").is_some());
        }
        serde_json::to_string(&value["runs"]).unwrap()
    };
    let first = run("1");
    assert_eq!(first, run("1"));
    assert_eq!(first, run("4"), "the number of threads must not show");
}

#[test]
fn nothing_beats_the_bound() {
    let policies = format!("all,offline,variants,baselines,{EAGER}");
    let value = json(&["compare", ZIPF, "--policies", &policies, "--json"]);
    let runs = value["runs"].as_array().unwrap();
    let mut shares = 0;
    for run in runs {
        if let Some(share) = run["share_of_bound"].as_f64() {
            assert!(share <= 1.0, "{}: {share}", run["policy"]);
            shares += 1;
        }
        match run["bound_gap"].as_f64() {
            Some(gap) => assert!(gap < 0.2, "{gap}"),
            // It makes another machine of this one, to which the bound does not apply.
            None => assert!(run["policy"].as_str().unwrap().starts_with("swap-"), "{run}"),
        }
    }
    assert!(shares >= 3 * 8, "only all-fast has none: {shares} of {}", runs.len());
}

#[test]
fn series_are_written_in_both_formats() {
    let folder = tempfile::tempdir().unwrap();
    let (csv, js) = (folder.path().join("s.csv"), folder.path().join("s.json"));
    for path in [&csv, &js] {
        frostline(&single(&[ZIPF, "--series", path.to_str().unwrap()])).success();
    }
    let csv = std::fs::read_to_string(csv).unwrap();
    let head = "seconds,accesses,fast_hit_ratio,resident_bytes_0,resident_bytes_1,promoted_bytes,\
                demoted_bytes,hot_bytes,warm_bytes,cold_bytes";
    assert!(csv.starts_with(head), "{}", csv.lines().next().unwrap());
    let js: Value = serde_json::from_str(&std::fs::read_to_string(js).unwrap()).unwrap();
    let points = js["runs"][0]["series"].as_array().unwrap();
    assert!(points.len() > 10);
    assert_eq!(csv.lines().count(), points.len() + 1);
    let columns = csv.lines().next().unwrap().split(',').count();
    assert!(csv.lines().all(|line| line.split(',').count() == columns));
}

#[test]
fn injected_trouble_happens() {
    let trouble = ["--lost-samples", "50%", "--busy-pages", "50%", "--full-node", "20%"];
    let run = json(&[&single(&[ZIPF, "--policies", EAGER, "--json"])[..], &trouble[..]].concat());
    let counters = &run["runs"][0]["counters"];
    for name in ["machine.samples_lost", "machine.injected_busy_folios"] {
        assert!(counters[name].as_f64().unwrap() > 0.0, "{name}");
    }
}

#[test]
fn lists_show_parameters() {
    let list = stdout(frostline(&["list", "policies"]).success());
    let memtis = stdout(frostline(&["list", "policies", "memtis"]).success());
    assert!(list.contains("principal") && list.contains("oracle-static"), "{list}");
    assert!(memtis.contains("parameter") && memtis.contains("alpha"), "{memtis}");
    let value = json(&["list", "policies", "--json"]);
    assert!(value["runs"].as_array().unwrap().len() >= 10);
    let machines = json(&["list", "machines", "--json"]);
    assert_eq!(machines["runs"][0]["name"], "dram-nvm");
}

#[test]
fn a_machine_that_was_printed_is_taken_back() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("box.toml");
    let toml = stdout(frostline(&["list", "machines", "dram-cxl:mlp=2"]).success());
    std::fs::write(&file, &toml).unwrap();
    let file = file.to_str().unwrap();
    assert_eq!(stdout(frostline(&["list", "machines", file]).success()), toml);
    let run = json(&single(&[ZIPF, "--machine", &format!("{file}:mlp=2"), "--json"]));
    assert_eq!(run["runs"][0]["machine"], "dram-cxl:mlp=2:mlp=2");
}

#[test]
fn completions_know_the_subcommands() {
    for shell in ["bash", "zsh", "fish"] {
        let script = stdout(frostline(&["completions", shell]).success());
        assert!(script.contains("compare") && script.contains("migration-limit"), "{shell}");
    }
}

#[test]
fn every_command_has_a_man_page() {
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("man1");
    frostline(&["completions", "--man-pages", pages.to_str().unwrap()]).success();
    for (page, words) in [
        ("frostline.1", "SUBCOMMANDS"),
        ("frostline-compare.1", "\\-\\-policies"),
        ("frostline-trace-import.1", "perf"),
        ("frostline-daemon-config-check.1", "configuration"),
    ] {
        let text = std::fs::read_to_string(pages.join(page)).unwrap();
        assert!(text.contains(words), "{page}: {text}");
    }
    frostline(&["completions", "--man-pages", "/dev/null/x"]).code(1);
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let mut child = StdCommand::new(env!("CARGO_BIN_EXE_frostline"))
        .args(["list", "machines", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", output.status);
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn a_full_disk_is_an_error() {
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let output = StdCommand::new(env!("CARGO_BIN_EXE_frostline"))
        .args(["list", "machines", "--json"])
        .stdout(full)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.starts_with("error: ") && text.contains("space"), "{text}");
}

#[test]
fn a_profile_says_how_much_memory_serves_how_much() {
    let text = stdout(frostline(&["trace", "profile", ZIPF]).success());
    for part in ["after 4.00 K that were left out", "15.6 MiB: 4.00 K pages in 8 regions", "99.9 %"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    let profile = &json(&["trace", "profile", ZIPF, "--skip", "1K", "--records", "100K", "--json"]);
    let run = &profile["runs"][0];
    assert_eq!((&run["records"], &run["left_out"]), (&100_000.into(), &1000.into()));
    assert_eq!(run["first_touches"], 3000, "the rest of the initialisation");
    let curve = run["miss_curve"].as_array().unwrap();
    assert!(curve[0]["misses"].as_f64() > curve[curve.len() - 1]["misses"].as_f64());
    let bytes = |i: usize| run["memory"][i]["bytes"].as_u64().unwrap();
    assert!(bytes(0) < bytes(2) && run["memory"][5]["bytes"].is_null(), "{run}");
    fails(&["trace", "profile", ZIPF, "--skip", "1M"], 2, "nothing behind", "--skip");
}

#[test]
fn a_single_run_shows_every_number_and_only_one_has_a_series() {
    let text = stdout(frostline(&single(&[ZIPF])).success());
    assert!(text.contains("  parameters  ") && text.contains("mean latency"), "{text}");
    let series = ["compare", ZIPF, "--series", "s.csv", "--fast", "1:8"];
    fails(&series, 2, "there are several runs", "one policy");
}

#[test]
fn a_number_below_a_page_is_a_forgotten_unit() {
    fails(&["compare", ZIPF, "--fast", "25"], 2, "less than a page", "25%");
    fails(&["run", "--fast", "40", "--", "true"], 125, "less than a page", "40%");
}

#[test]
fn programs_need_no_dashes_in_front_and_keep_their_own() {
    let seen =
        stdout(frostline(&["-q", "run", "--slow", "none", "echo", "-n", "--fast", "x"]).success());
    assert_eq!(seen, "--fast x");
    frostline(&["run", "--fats", "1:2", "echo"]).code(125);
}

#[test]
fn processes_are_numbers() {
    fails(&["attach", "redis-server"], 2, "redis-server", "pidof redis-server");
}

#[test]
fn parquet_is_not_written_under_another_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.csv");
    let path = path.to_str().unwrap();
    fails(&["trace", "export", ZIPF, path], 2, "does not end in .parquet", "DuckDB");
    assert!(!std::path::Path::new(path).exists());
}

#[test]
fn seeds_of_recorded_traces_differ_by_sampling_and_names_do_not_hold_them() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t.flt");
    let trace = trace.to_str().unwrap();
    frostline(&["-q", "trace", "synth", ZIPF.strip_prefix("synth:").unwrap(), "-o", trace])
        .success();
    let args = ["compare", trace, "-p", EAGER, "-f", "1:2", "--seeds", "3"];
    let text = stdout(frostline(&args).success());
    assert!(text.contains("the trace is the same with each"), "{text}");
    let runs = json(&[&args[..], &["--json"]].concat());
    let times: Vec<f64> = runs["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| run["modelled_seconds"].as_f64().unwrap())
        .collect();
    assert!(times[0] != times[1] && times[1] != times[2], "{times:?}");
    let generated = json(&["compare", ZIPF, "-p", EAGER, "-f", "1:2", "--seeds", "2", "--json"]);
    for run in generated["runs"].as_array().unwrap() {
        assert_eq!((&run["trace"], &run["fast"]), (&ZIPF.into(), &"1:2".into()));
        assert!(
            run["policy_config"]["wakeup"].is_f64() && run["policy_config"]["warm"].is_boolean()
        );
    }
}

#[test]
fn old_names_work_and_say_the_new_one() {
    for (old, new) in [
        (&["policies", "memtis"][..], &["list", "policies", "memtis"][..]),
        (&["machines"], &["list", "machines"]),
        (&["workloads"], &["list", "workloads"]),
        (&["synth", "zipf"], &["list", "generators", "zipf"]),
        (&["status", "--json"], &["status", "--json"]),
        (&["sim", ZIPF], &["compare", ZIPF, "-p", "frost", "-f", "1:8", "--no-bound"]),
    ] {
        let (before, now) = (frostline(old).success(), frostline(new).success());
        assert_eq!(now.get_output().stderr, b"", "{new:?}");
        let note = String::from_utf8(before.get_output().stderr.clone()).unwrap();
        assert_eq!(note.contains("is now `frostline "), old != new, "{old:?}: {note}");
        assert_eq!(stdout(before), stdout(now), "{old:?}");
        let quiet = frostline(&[&["-q"], old].concat()).success();
        assert_eq!(quiet.get_output().stderr, b"", "{old:?}");
    }
}

#[test]
fn help_fits_a_screen_and_names_fifteen_commands() {
    let help = stdout(frostline(&["-h"]).success());
    let commands: Vec<&str> = help
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert_eq!(commands.len(), 16, "fifteen and help: {commands:?}");
    for command in &commands[..15] {
        let help = stdout(frostline(&[command, "-h"]).success());
        let lines = help.lines().count();
        assert!(lines <= 40, "{command}: {lines} lines");
    }
}

#[test]
fn what_has_moved_names_the_other_program() {
    let hint = |args: &[&str], words: &str| {
        let words = format!("hint: frostline-repro {words} (cargo install --path repro)");
        fails(args, 2, "another program", &words);
    };
    hint(&["experiment", "run", "a.toml", "--quick"], "run a.toml --quick");
    hint(&["experiment", "list", "--help"], "list --help");
    hint(&["workloads", "--validate"], "validate");
    hint(&["workloads", "--validate", "etc", "--keep", "d"], "validate etc --keep d");
    let help = stdout(frostline(&["--help"]).success());
    assert!(help.ends_with("frostline-repro.\n") && !help.contains("  experiment "), "{help}");
}

#[test]
fn a_trace_is_drawn_over_time() {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("h.html");
    let trace = "synth:shift:size=64MiB:accesses=2M";
    let args = ["trace", "heatmap", trace, "--report", report.to_str().unwrap()];
    let text = stdout(frostline(&args).success());
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with('│')).collect();
    assert!(!lines.is_empty() && text.contains('█'), "{text}");
    assert!(lines.iter().all(|line| line.chars().count() <= 74), "{text}");
    let page = std::fs::read_to_string(&report).unwrap();
    assert!(page.contains("Accesses by address over time") && page.contains("by place in memory"));
    let maps = json(&["trace", "heatmap", trace, "--json"]);
    let counts = maps["runs"][0]["by_address"]["counts"].as_array().unwrap();
    let sum: u64 =
        counts.iter().flat_map(|row| row.as_array().unwrap()).map(|n| n.as_u64().unwrap()).sum();
    assert!((1_900_000..2_300_000).contains(&sum), "{sum}");
    frostline(&["trace", "heatmap", "none.flt"]).failure();
}
