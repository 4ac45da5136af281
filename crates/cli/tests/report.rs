//! The HTML report.

use assert_cmd::Command;

fn report(args: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.html");
    let mut command = Command::new(env!("CARGO_BIN_EXE_frostline"));
    command.args(args).arg("--report").arg(&path).assert().success();
    std::fs::read_to_string(path).unwrap()
}

const COMPARE: &[&str] = &[
    "compare",
    "synth:zipf:pages=4K:accesses=200K",
    "--policies",
    "all,memtis:payoff=on",
    "--fast",
    "1:2,1:8",
];

#[test]
fn it_has_every_chart() {
    let page = report(COMPARE);
    for (part, times) in [
        ("<figcaption>How much fast memory is enough?<", 1),
        ("<figcaption>Slowdown<", 2),
        ("<figcaption>Share of the bound<", 2),
        ("<figcaption>Hit ratio of the fast tier over time<", 2),
        ("<figcaption>Hot, warm and cold memory: memtis<", 2),
        ("<figcaption>Migration traffic: memtis:payoff=on<", 2),
        ("<figcaption>Accesses by address over time<", 1),
        ("size of the fast tier", 4),
        ("<summary>All numbers, fast memory 1:8<", 1),
        ("<b>Not modelled:</b>", 1),
        ("prefers-color-scheme: dark", 1),
    ] {
        let found = page.matches(part).count();
        assert!(found >= times, "{part}: {found} times");
    }
    assert!(page.matches("modelled time (").count() > 4, "axes have units");
}

#[test]
fn charts_can_be_read_without_seeing_them() {
    let page = report(COMPARE);
    let pictures = page.matches("role=\"img\" aria-label=").count();
    assert!(pictures > 6, "{pictures}");
    assert_eq!(page.matches("<desc>").count(), pictures);
    assert_eq!(page.matches("<summary>As a table</summary>").count(), pictures);
    // Bars are lists of names and values.
    let lists = page.matches("<div class=\"rows").count();
    assert_eq!(page.matches("<figure>").count(), pictures + lists);
    assert!(page.contains("<span class=\"name\">first-touch</span><span class=\"value\"><b>"));
    // Every other picture is an ornament of such a list or of a legend.
    let hidden = page.matches("aria-hidden=\"true\"").count();
    let nested = page.matches("<svg class=\"stretch\"").count();
    assert_eq!(page.matches("<svg").count(), pictures + nested + hidden);
}

#[test]
fn many_traces_have_a_table_at_a_glance() {
    let page = report(&["compare", "synth:scan:pages=2K:accesses=20K", COMPARE[1]]);
    let (glance, first) = (page.find("Slowdown at a glance"), page.find("id=\"trace-1\""));
    assert!(glance.unwrap() < first.unwrap());
    for trace in 1..=2 {
        assert!(page.contains(&format!("href=\"#trace-{trace}\"")));
        assert!(page.contains(&format!("id=\"trace-{trace}\"")));
    }
    assert!(!report(COMPARE).contains("Slowdown at a glance"));
}

#[test]
fn it_needs_nothing_but_itself() {
    let page = report(COMPARE);
    for foreign in ["http:", "https:", "//www", "<script", "<link", "@import", "src=", "<iframe"] {
        assert!(!page.contains(foreign), "{foreign}");
    }
    let images = page.matches("href=\"data:image/png;base64,").count();
    assert_eq!(page.matches("href=").count(), images);
    assert_eq!(page.matches("url(").count(), page.matches("url(#hatch)").count());
    assert!(!page.contains("NaN") && !page.contains("inf"), "a number that is none");
}

#[test]
fn it_is_the_same_every_time() {
    assert_eq!(report(COMPARE), report(COMPARE));
}

#[test]
fn elements_are_balanced() {
    let page =
        report(&["compare", "synth:hotcold:accesses=200K", "--fast", "40%", "-p", "memtis-plus"]);
    for name in ["figure", "svg", "table", "tr", "ul", "li", "section", "details", "div", "text"] {
        let open =
            page.matches(&format!("<{name}>")).count() + page.matches(&format!("<{name} ")).count();
        let closed = page.matches(&format!("</{name}>")).count();
        assert_eq!(open, closed, "{name}");
        assert!(open > 0, "{name}");
    }
}

#[test]
fn names_cannot_break_the_page() {
    let folder = tempfile::tempdir().unwrap();
    let machine = folder.path().join("m.toml");
    let mut command = Command::new(env!("CARGO_BIN_EXE_frostline"));
    let output =
        command.args(["list", "machines", "dram-cxl"]).assert().success().get_output().clone();
    let toml = String::from_utf8(output.stdout).unwrap();
    std::fs::write(&machine, toml.replace("\"dram-cxl\"", "\"<b>&x\"")).unwrap();
    let page =
        report(&["compare", COMPARE[1], "--fast", "1:8", "--machine", machine.to_str().unwrap()]);
    assert!(page.contains("&lt;b&gt;&amp;x") && !page.contains("<b>&x"));
}

#[test]
fn a_profile_has_curves_and_their_numbers() {
    let page = report(&["trace", "profile", "synth:zipf:pages=4K:accesses=200K"]);
    for (part, times) in [
        ("Misses by size of memory", 2),
        ("Popularity of pages", 2),
        ("Touched pages in 2 MiB", 2),
        ("Busy pages in 2 MiB", 2),
        ("serve 99.0 % of them", 1),
        (">1/256<", 2),
        ("class=\"curve s0\"", 4),
    ] {
        let found = page.matches(part).count();
        assert!(found >= times, "{part}: {found} times");
    }
    for name in ["figure", "svg", "table", "tr", "li", "section", "div", "text"] {
        let open =
            page.matches(&format!("<{name}>")).count() + page.matches(&format!("<{name} ")).count();
        assert_eq!(open, page.matches(&format!("</{name}>")).count(), "{name}");
    }
    assert!(!page.contains("NaN") && !page.contains("inf"));
}
