//! The daemon, its configuration and what shows its work, as users meet them.

use assert_cmd::Command;
use frostline_testing::{Requirement, skip};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command as StdCommand, Stdio};
use std::time::{Duration, Instant};

const TIMEOUT: Duration = Duration::from_secs(60);

fn frostline(args: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_frostline")).args(args).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// Waits until `found` gives something.
fn wait<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + TIMEOUT;
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(Instant::now() < until, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A program that only waits, under a name of its own.
struct Sleeper(Child);

impl Sleeper {
    fn start(folder: &Path, name: &str) -> Self {
        let path = Self::program(folder, name);
        Self(StdCommand::new(&path).arg("600").spawn().unwrap())
    }

    /// The same for user 65534, with the rights that `setpriv` gives.
    fn start_as_nobody(folder: &Path, name: &str) -> Self {
        let path = Self::program(folder, name);
        let mut command = StdCommand::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
        Self(command.arg(&path).arg("600").spawn().unwrap())
    }

    fn program(folder: &Path, name: &str) -> PathBuf {
        let path = folder.join(name);
        if !path.exists() {
            let sleep =
                ["/usr/bin/sleep", "/bin/sleep"].into_iter().find(|p| Path::new(p).exists());
            std::os::unix::fs::symlink(sleep.expect("sleep is installed"), &path).unwrap();
        }
        path
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A daemon, ended and waited for where a test fails.
struct Daemon {
    child: Child,
    notes: BufReader<ChildStderr>,
}

impl Daemon {
    fn start(config: &Path) -> Self {
        let mut child = StdCommand::new(env!("CARGO_BIN_EXE_frostline"))
            .args(["daemon", "-c"])
            .arg(config)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let notes = BufReader::new(child.stderr.take().unwrap());
        Self { child, notes }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Reads notes up to the first that contains `part`; all that were read.
    fn says(&mut self, part: &str) -> String {
        let mut all = String::new();
        loop {
            let from = all.len();
            assert!(self.notes.read_line(&mut all).unwrap() > 0, "never said '{part}':\n{all}");
            if all[from..].contains(part) {
                return all;
            }
        }
    }

    /// Ends it; everything that it says until then.
    fn end(mut self) -> String {
        self.signal(Signal::TERM);
        let mut rest = String::new();
        self.notes.read_to_string(&mut rest).unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(0), "{rest}");
        rest
    }

    /// What `status --json` says of its targets.
    fn status(&self) -> Vec<Value> {
        let (code, text, notes) = frostline(&["status", "--json"]);
        assert_eq!(code, 0, "{notes}");
        let all: Value = serde_json::from_str(&text).unwrap();
        let ours = |run: &&Value| run["pid"] == self.child.id();
        all["runs"].as_array().unwrap().iter().filter(ours).cloned().collect()
    }
}

impl Daemon {
    /// Waits until it manages a target and knows of its memory.
    fn manages(&self, name: &str) -> Value {
        let known = |run: &Value| run["name"] == name && run["footprint_bytes"] != 0;
        wait(name, || self.status().into_iter().find(known))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether page faults of other programs may be sampled, and the list of instances written.
fn may_manage() -> bool {
    let folder = "/run/frostline/instances";
    let probe = format!("{folder}/test-{}", std::process::id());
    let writes = std::fs::create_dir_all(folder).is_ok() && std::fs::write(&probe, "").is_ok();
    let _ = std::fs::remove_file(probe);
    let (_, text, _) = frostline(&["doctor", "--json"]);
    let found: Value = serde_json::from_str(&text).unwrap();
    let samples = found["runs"].as_array().unwrap().iter().any(|capability| {
        capability["name"] == "fault-sampling" && capability["available"] == true
    });
    if !(writes && samples) {
        let why = format!("no right to sample page faults or to write {folder}");
        skip(Requirement::Faults, why);
    }
    writes && samples
}

fn target(name: &str, command: &str, more: &str) -> String {
    format!("[[target]]\nname = \"{name}\"\ncommand = \"{command}\"\nslow = \"none\"\n{more}\n")
}

#[test]
fn targets_come_and_go_while_others_are_undisturbed() {
    if !may_manage() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("f.toml");
    let textfile = folder.path().join("f.prom");
    let id = std::process::id();
    // Names of our own: others may run at the same time.
    let [one, two] = [1, 2].map(|n| format!("sl{n}-{id}"));
    let head =
        format!("[metrics]\nlisten = \"127.0.0.1:0\"\ntextfile = \"{}\"\n", textfile.display());
    std::fs::write(&config, format!("{head}{}", target("one", &one, ""))).unwrap();
    let mut daemon = Daemon::start(&config);
    let address = daemon.says("metrics at http://");
    let (_, address) = address.split_once("http://").unwrap();
    let address = address.trim().trim_end_matches("/metrics").to_owned();
    daemon.says("one: waiting for it to run");
    let waiting = wait("a target that is waited for", || daemon.status().pop());
    assert_eq!((&waiting["name"], &waiting["targets"]), (&"one".into(), &Value::Array(vec![])));

    let (_, text, _) = frostline(&["status"]);
    assert!(
        text.contains(&format!("one: frostline {}; does not run\n", daemon.child.id())),
        "{text}"
    );

    let first = Sleeper::start(folder.path(), &one);
    daemon.says("one: managed");
    let status = daemon.manages("one");
    assert_eq!(status["targets"][0]["pid"], first.pid());
    for word in ["one".to_owned(), first.pid().to_string(), daemon.child.id().to_string()] {
        let (code, text, notes) = frostline(&["status", &word]);
        assert!(code == 0 && text.starts_with("one: "), "{word}: {text}{notes}");
    }
    let (code, text, notes) = frostline(&["status", "one", "no-such-program"]);
    assert!(code == 1 && text.is_empty() && notes.contains("'no-such-program'"), "{notes}");
    let page = wait("metrics of a target", || {
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
        let mut page = String::new();
        stream.read_to_string(&mut page).unwrap();
        page.contains("frostline_processes{target=\"one\"} 1\n").then_some(page)
    });
    assert!(page.contains("frostline_memory_bytes{target=\"one\",tier=\"memory\"} "), "{page}");
    wait("the textfile", || {
        let text = std::fs::read_to_string(&textfile).unwrap_or_default();
        text.contains("frostline_processes{target=\"one\"} 1\n").then_some(())
    });
    let (_, picture, _) = frostline(&["status", "--watch", "--once"]);
    assert!(picture.contains(&one) && picture.contains("refaults"), "{picture}");

    std::fs::write(&config, format!("{head}{}", target("one", &one, "polcy = \"x\""))).unwrap();
    daemon.signal(Signal::HUP);
    let refused = daemon.says("not reloaded");
    assert!(refused.contains("f.toml:8: unknown key `polcy`"), "{refused}");
    assert!(daemon.says("hint: ").contains("`policy`"));

    let second = Sleeper::start(folder.path(), &two);
    let both = target("one", &one, "priority = 80") + &target("two", &two, "");
    std::fs::write(&config, format!("{head}{both}")).unwrap();
    daemon.signal(Signal::HUP);
    let said = daemon.says("reloaded: 2 targets") + &daemon.says("two: managed");
    assert!(!said.contains("one: "), "it is undisturbed: {said}");
    assert_eq!(daemon.manages("two")["targets"][0]["pid"], second.pid());
    assert_eq!(daemon.manages("one")["targets"][0]["pid"], first.pid());

    drop(first);
    daemon.says("one: has ended");
    let again = Sleeper::start(folder.path(), &one);
    daemon.says("one: managed");

    std::fs::write(&config, format!("{head}{}", target("two", &two, ""))).unwrap();
    daemon.signal(Signal::HUP);
    daemon.says("reloaded: 1 target");
    wait("the target to go", || (daemon.status().len() == 1).then_some(()));
    assert_eq!(daemon.status()[0]["name"], "two");
    let rest = daemon.end();
    assert!(rest.contains("two: "), "{rest}");
    for mut sleeper in [again, second] {
        assert!(sleeper.0.try_wait().unwrap().is_none(), "the programs go on");
    }
}

/// Names that nobody would choose, and some that somebody might.
fn odd_names() -> Vec<String> {
    let mut names: Vec<String> = [
        "",
        " ",
        "a\0b",
        "\0",
        "a\nb",
        "\r\n",
        "\t",
        "a/b",
        "/",
        "../../etc",
        ".",
        "a\"b",
        "a\\b",
        "\u{1b}[2J",
        "\u{7f}",
        "\u{85}",
        "\u{202e}abc",
        "\u{feff}",
        "größe",
        "数据库",
        "🐘🐘🐘🐘🐘",
        "%s%n",
        "{target}",
        "a=b",
    ]
    .map(String::from)
    .into();
    names.extend([15, 16, 127, 128, 129, 100_000].map(|length| "n".repeat(length)));
    // Of the characters above, in any order.
    let characters: Vec<char> = names[..24].concat().chars().collect();
    let mut state = 1_u64;
    let mut below = |n: usize| {
        let next = state.wrapping_mul(6_364_136_223_846_793_005);
        state = next.wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % n
    };
    for _ in 0..20 {
        let length = 1 + below(20);
        names.push((0..length).map(|_| characters[below(characters.len())]).collect());
    }
    names
}

#[test]
fn no_reload_ends_the_daemon_whatever_names_hold() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("f.toml");
    let path = config.to_str().unwrap();
    let plain = target("plain", "frostline-none", "");
    std::fs::write(&config, &plain).unwrap();
    let mut daemon = Daemon::start(&config);
    daemon.says("1 target of");
    let (mut taken, mut refused) = (0, 0);
    // Each as a name, as a command, and as a control group.
    for (text, place) in
        odd_names().into_iter().flat_map(|text| [0, 1, 2].map(|n| (text.clone(), n)))
    {
        let text = toml::Value::String(text).to_string();
        let name = if place == 0 { &text } else { "\"n\"" };
        let who = match place {
            1 => format!("command = {text}"),
            2 => format!("cgroup = {text}"),
            _ => "command = \"frostline-none\"".into(),
        };
        let new = format!("[[target]]\nname = {name}\n{who}\nslow = \"none\"\n");
        std::fs::write(&config, &new).unwrap();
        let (code, _, notes) = frostline(&["daemon", "config", "check", "-c", path]);
        assert!(code == 0 || code == 2 && notes.contains("hint: "), "{new:?}: {notes}");
        daemon.signal(Signal::HUP);
        let said = daemon.says("reloaded");
        assert_eq!(said.contains("not reloaded"), code == 2, "{new:?}: {said}");
        assert!(!notes.contains('\u{1b}') && !said.contains('\u{1b}'), "{new:?}");
        *(if code == 0 { &mut taken } else { &mut refused }) += 1;
    }
    assert!(taken > 10 && refused > 10, "{taken} taken, {refused} refused");
    std::fs::write(&config, &plain).unwrap();
    daemon.signal(Signal::HUP);
    daemon.says("reloaded: 1 target");
    wait("the target that is left", || daemon.status().pop().filter(|run| run["name"] == "plain"));
    daemon.end();
}

#[test]
fn a_changed_include_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let [config, more, new] = ["f.toml", "more.toml", "new"].map(|name| folder.path().join(name));
    std::fs::write(&config, format!("[daemon]\ninclude = {more:?}\n")).unwrap();
    let mut daemon = Daemon::start(&config);
    daemon.says("0 targets of");
    // Nothing is told of a file that holds what was known.
    std::fs::write(&more, "").unwrap();
    let replace = |text: &str| {
        std::fs::write(&new, text).unwrap();
        std::fs::rename(&new, &more).unwrap();
    };
    replace(&target("one", "frostline-none", ""));
    daemon.says("reloaded: 1 target");
    replace("[[target]]\nname = 1\n");
    daemon.says("not reloaded");
    replace(&format!(
        "{}{}",
        target("one", "frostline-none", ""),
        target("two", "frostline-none", "")
    ));
    daemon.says("reloaded: 2 targets");
    let names = || daemon.status().iter().map(|run| run["name"].to_string()).collect::<Vec<_>>();
    wait("both targets", || (names() == ["\"one\"", "\"two\""]).then_some(()));
    std::fs::remove_file(&more).unwrap();
    daemon.says("reloaded: 0 targets");
    daemon.end();
}

#[test]
fn a_namesake_of_another_user_is_left_alone_and_told() {
    if !may_manage() {
        return;
    }
    let setpriv = StdCommand::new("setpriv").arg("--version").output();
    if !rustix::process::geteuid().is_root() || !setpriv.is_ok_and(|done| done.status.success()) {
        return skip(Requirement::Setpriv, "not root, or no setpriv here");
    }
    let folder = tempfile::tempdir().unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder.path(), open).unwrap();
    let name = format!("sl4-{}", std::process::id());
    let config = folder.path().join("f.toml");
    let file = config.to_str().unwrap();
    let nobodys = Sleeper::start_as_nobody(folder.path(), &name);
    let comm = format!("/proc/{}/comm", nobodys.pid());
    wait("the program", || {
        (std::fs::read_to_string(&comm).unwrap_or_default().trim() == name).then_some(())
    });
    std::fs::write(&config, target("one", &name, "")).unwrap();
    let (code, text, notes) = frostline(&["daemon", "config", "check", "-c", file]);
    assert_eq!(code, 0, "{notes}");
    let line = text.lines().find(|line| line.starts_with("one: ")).expect("a line");
    assert!(line.contains("root (0)") && line.contains("(65534) are left alone"), "{text}");
    let mut daemon = Daemon::start(&config);
    let said = daemon.says("one: waiting for it to run");
    assert!(said.contains("(65534) are left alone: user = "), "{said}");
    let own = Sleeper::start(folder.path(), &name);
    daemon.says("one: managed");
    let managed = |status: &Value| -> Vec<u64> {
        let targets = status["targets"].as_array().unwrap().iter();
        targets.map(|target| target["pid"].as_u64().unwrap()).collect()
    };
    assert_eq!(managed(&daemon.manages("one")), [u64::from(own.pid())]);
    daemon.end();

    std::fs::write(&config, target("one", &name, "user = 65534")).unwrap();
    let mut daemon = Daemon::start(&config);
    daemon.says("one: managed");
    assert_eq!(managed(&daemon.manages("one")), [u64::from(nobodys.pid())]);
    daemon.end();
}

#[test]
fn what_others_put_in_place_of_the_textfile_is_not_opened() {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    let folder = tempfile::tempdir().unwrap();
    let textfile = folder.path().join("f.prom");
    // Nobody ever reads from it: to open it would never end.
    mknodat(CWD, &textfile, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let config = folder.path().join("frostline.toml");
    let metrics = format!("[metrics]\ntextfile = \"{}\"\n", textfile.display());
    std::fs::write(&config, metrics + &target("t", "frostline-none", "")).unwrap();
    let mut daemon = Daemon::start(&config);
    // Where it waits for the pipe, it says nothing any more.
    let pid = Pid::from_child(&daemon.child);
    let (ended, waiting) = std::sync::mpsc::channel::<()>();
    std::thread::spawn(move || {
        if waiting.recv_timeout(TIMEOUT) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            let _ = kill_process(pid, Signal::KILL);
        }
    });
    daemon.says("something else than a file");
    daemon.signal(Signal::HUP);
    daemon.says("reloaded: ");
    // A link is replaced, and what it leads to not touched.
    let precious = folder.path().join("precious");
    std::fs::write(&precious, "precious").unwrap();
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&precious, &link).unwrap();
    std::fs::rename(&link, &textfile).unwrap();
    let written = || std::fs::read_to_string(&textfile).ok().filter(|t| t.contains("frostline_"));
    wait("the textfile", written);
    assert!(!textfile.is_symlink());
    assert_eq!(std::fs::read_to_string(&precious).unwrap(), "precious");
    daemon.end();
    drop(ended);
}

#[test]
fn a_process_number_is_one_process() {
    if !may_manage() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("f.toml");
    let sleeper = Sleeper::start(folder.path(), &format!("sl3-{}", std::process::id()));
    let text = format!("[[target]]\nname = \"p\"\npid = {}\nslow = \"none\"\n", sleeper.pid());
    std::fs::write(&config, &text).unwrap();
    let mut daemon = Daemon::start(&config);
    daemon.says("p: managed");
    let (code, _, notes) =
        frostline(&["attach", &sleeper.pid().to_string(), "--slow", "none", "--seconds", "1"]);
    assert!(code == 1 && notes.contains("already managed"), "{notes}");
    drop(sleeper);
    daemon.says("p: has ended");
    daemon.says("p: does not run, and a process number is not waited for");
    daemon.end();
}

#[test]
fn the_example_is_right_and_shows_the_defaults() {
    let example = std::fs::read_to_string(repository("configs/frostline.toml")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let shown = |text: &str| {
        let path = folder.path().join("f.toml");
        std::fs::write(&path, text).unwrap();
        let (code, text, notes) =
            frostline(&["daemon", "config", "show", "-c", path.to_str().unwrap()]);
        assert_eq!(code, 0, "{notes}");
        let (_, text) = text.split_once('\n').unwrap();
        text.to_owned()
    };
    // Settings that are said to be defaults change nothing when they are given.
    assert!(example.matches("\n#: ").count() >= 7);
    assert_eq!(shown(&example.replace("\n#: ", "\n")), shown(&example));
    // All others can be given as they stand, one way to say who it is, or how much is fast, at a time.
    let others = ["cgroup", "pid", "save"];
    let given = others
        .iter()
        .fold(example, |text, key| text.replace(&format!("\n# {key} = "), &format!("\n#{key} = ")));
    let given: Vec<&str> = given
        .lines()
        .map(|line| line.strip_prefix("# ").filter(|rest| rest.contains(" = ")).unwrap_or(line))
        .collect();
    let all = shown(&given.join("\n"));
    for key in ["fast = \"16GiB\"", "listen", "textfile", "slow", "migration_limit"] {
        assert!(all.contains(key), "{key}: {all}");
    }
    let bare = shown("[[target]]\nname = \"a\"\npid = 9\nslow = \"zram\"\n");
    assert!(bare.contains("max_slowdown = \"1%\""), "{bare}");
    for other in ["fast = \"40%\"", "slow = \"none\"", "slow = \"zram\"\ndry_run = true"] {
        let sized = shown(&format!("[[target]]\nname = \"a\"\npid = 9\n{other}\n"));
        assert!(!sized.contains("max_slowdown"), "{sized}");
    }
    let path = repository("configs/frostline.toml");
    let (code, text, _) = frostline(&["daemon", "config", "check", "-c", path.to_str().unwrap()]);
    assert!(code == 0 && text.contains("right"), "{text}");
}

#[test]
fn a_wrong_configuration_ends_with_2_and_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f.toml");
    std::fs::write(&path, "[daemon]\nfsat = \"1GiB\"\n").unwrap();
    let file = path.to_str().unwrap();
    for args in [["daemon", "config", "check", "-c", file].as_slice(), &["daemon", "-c", file]] {
        let (code, out, notes) = frostline(args);
        assert_eq!((code, out.as_str()), (2, ""), "{notes}");
        assert!(notes.contains("f.toml:2: unknown key `fsat`"), "{notes}");
        assert!(notes.contains("hint: did you mean `fast`? known: fast, save"), "{notes}");
    }
    let (code, _, notes) = frostline(&["daemon", "-c", "/nonexistent/f.toml"]);
    assert!(code == 1 && notes.contains("/nonexistent/f.toml"), "{notes}");
}

#[test]
fn the_unit_calls_what_exists() {
    let unit = std::fs::read_to_string(repository("configs/frostline.service")).unwrap();
    let (_, help, _) = frostline(&["--help"]);
    let mut calls = 0;
    for line in unit.lines().filter(|line| line.starts_with("Exec")) {
        let (_, command) = line.split_once('=').unwrap();
        let Some(args) = command.strip_prefix("frostline ") else { continue };
        calls += 1;
        let word = args.split(' ').next().unwrap();
        assert!(help.contains(&format!("\n  {word} ")), "{word}: {help}");
    }
    assert_eq!(calls, 3);
}

#[test]
fn doctor_answers_for_every_capability() {
    let (code, text, _) = frostline(&["doctor"]);
    assert_eq!(code, 0);
    let (code, json, _) = frostline(&["doctor", "--json"]);
    assert_eq!(code, 0);
    let found: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(found["schema"], 1);
    let found = found["runs"].as_array().unwrap();
    assert!(found.len() > 15, "{json}");
    for capability in found {
        let name = capability["name"].as_str().unwrap();
        let answer = if capability["available"] == true { "yes" } else { "no" };
        let line = text.lines().find(|line| line.split_whitespace().next() == Some(name));
        let line = line.unwrap_or_else(|| panic!("{name} is not in\n{text}"));
        assert_eq!(line.split_whitespace().nth(1), Some(answer), "{line}");
    }
    for group in ["Rights", "Memory", "Moving pages", "Seeing accesses"] {
        assert!(text.lines().any(|line| line == group), "{text}");
    }
}

#[test]
fn top_needs_a_terminal_or_once() {
    let (code, out, notes) = frostline(&["status", "--watch"]);
    assert_eq!((code, out.as_str()), (2, ""), "{notes}");
    assert!(notes.contains("--once"), "{notes}");
    let (code, picture, _) = frostline(&["status", "--watch", "--once"]);
    assert!(code == 0 && picture.starts_with("frostline "), "{picture}");
}
