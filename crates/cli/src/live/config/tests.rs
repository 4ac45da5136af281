use super::*;
use crate::live::options::Tiering;
use clap::Parser;
use frostline_driver::options::ANY_LOSS;

/// Arguments of `run` and `attach`.
#[derive(Parser)]
struct CommandLine {
    #[command(flatten)]
    tiering: Tiering,
}

fn refused(text: &str) -> String {
    Config::parse("f.toml", text).expect_err(text).to_string()
}

fn target(text: &str) -> Target {
    let text = format!("[[target]]\nname = \"a\"\ncommand = \"b\"\n{text}");
    Config::parse("f.toml", &text).unwrap().targets.remove(0)
}

#[test]
fn defaults_are_those_of_the_command_line() {
    let theirs = CommandLine::parse_from(["frostline"]).tiering.options().unwrap();
    assert_eq!(target("").options, theirs);
}

#[test]
fn unknown_keys_are_refused_with_line_and_nearest() {
    let text = refused("[metrics]\n\nlisten = \"127.0.0.1:1\"\ntextfil = \"x\"\n");
    assert!(text.starts_with("f.toml:4: unknown key `textfil`"), "{text}");
    assert!(text.ends_with("hint: did you mean `textfile`? known: listen, textfile"), "{text}");
    let text = refused("[[target]]\nname = \"a\"\npid = 9\npolciy = \"lru\"\n");
    assert!(text.starts_with("f.toml:4: ") && text.contains("`policy`?"), "{text}");
    let text = refused("\n[[targets]]\nname = \"a\"\n");
    assert!(text.starts_with("f.toml:2: ") && text.contains("`target`?"), "{text}");
    let text = refused("[daemon]\nweb = \"0.0.0.0:7199\"\n");
    assert!(text.contains("not an address of this machine alone"), "{text}");
    let text = refused("[daemon]\nxyzzy = 1\n");
    assert!(text.ends_with("hint: known: fast, save, web, include"), "{text}");
}

#[test]
fn wrong_values_are_refused_with_line_and_remedy() {
    let head = "[[target]]\nname = \"a\"\ncommand = \"b\"\n";
    for (line, says, hints) in [
        ("policy = \"memtsi\"", "unknown policy `memtsi`", "`memtis`"),
        ("fast = \"0%\"", "0%", "write a size"),
        ("fast = 12", "expected a string", "in quotes"),
        ("slow = \"zarm\"", "zarm", "`zram`"),
        ("slow = 1", "in brackets", "slow = ["),
        ("slow = [\"zram\", \"node:1\"]", "stands after swap", "node:1, then zram"),
        ("cpu_limit = \"0%\"", "no time at all", "1%"),
        ("samples = \"damn\"", "unknown source of samples `damn`", "`damon`"),
        ("migration_limit = \"0\"", "too few", "no limit"),
        ("weight = 0", "0 is no weight", "above 0"),
        ("weight = -1.5", "-1.5 is no weight", "above 0"),
        ("weight = 1e9", "is no weight", "at most 1000"),
        ("weight = nan", "NaN is no weight", "above 0"),
        ("consolidate = \"auto\"", "expected a table, such as { every", ""),
        ("consolidate = { hot_pages = 513 }", "`513` is no number of hot pages", "auto"),
        ("consolidate = { every = \"10ms\" }", "less than a second", "30s"),
        ("consolidate = { evry = \"10s\" }", "unknown key `evry`", "`every`"),
        ("priority = 0", "0 is no priority", "to 100"),
        (
            "user = \"no-such-user-here\"",
            "there is no user \"no-such-user-here\"",
            "as `id` prints",
        ),
        ("user = -1", "name or the number of a user", "user = 101"),
        ("priority = 101", "101 is no priority", "to 100"),
        ("cgroup = \"\"", "every process", "system.slice"),
        ("cgroup = \"/\"", "every process", "system.slice"),
        ("cgroup = \"a/../b\"", "by way of others", "system.slice"),
    ] {
        let text = refused(&format!("{head}{line}\n"));
        assert!(text.starts_with("f.toml:4: ") && text.contains(says), "{line}: {text}");
        let (_, hint) = text.split_once("\nhint: ").expect("a hint");
        assert!(hint.contains(hints), "{line}: {text}");
    }
    for listen in ["0.0.0.0:9177", "[::]:1", "192.168.0.1:80", "localhost:9177", "9177"] {
        let text = refused(&format!("[metrics]\nlisten = \"{listen}\"\n"));
        assert!(text.starts_with("f.toml:2: ") && text.contains("127.0.0.1:9177"), "{text}");
    }
    for listen in ["127.0.0.1:9177", "[::1]:9177"] {
        assert!(Config::parse("f", &format!("[metrics]\nlisten = \"{listen}\"\n")).is_ok());
    }
    let text = refused("[daemon\n");
    assert!(text.starts_with("f.toml:1: ") && text.contains("\nhint: "), "{text}");
}

#[test]
fn names_hold_nothing_that_a_terminal_obeys() {
    for bad in ["a\\u0000b", "\\n", "\\u001b[2J", "\\u202e"] {
        let text = refused(&format!("[[target]]\nname = \"{bad}\"\ncommand = \"b\"\n"));
        assert!(text.starts_with("f.toml:2: ") && text.contains("the name "), "{text}");
        assert!(text.contains("\nhint: "), "{text}");
        assert!(!text.contains(['\0', '\u{1b}', '\u{202e}']), "{text:?}");
        let text = refused(&format!("[[target]]\nname = \"a\"\ncommand = \"{bad}\"\n"));
        assert!(text.starts_with("f.toml:3: ") && text.contains("the command "), "{text}");
    }
    let long = "n".repeat(129);
    let text = refused(&format!("[[target]]\nname = \"{long}\"\ncommand = \"b\"\n"));
    assert!(text.contains("129 bytes") && !text.contains(&long), "{text}");
    let config = Config::parse("f", "[[target]]\nname = \"größe/ö x\"\ncommand = \"b\"\n");
    assert_eq!(config.unwrap().targets[0].name, "größe/ö x");
}

#[test]
fn processes_that_are_never_managed_are_refused_before_any_runs() {
    for pid in [0, 1] {
        let text = refused(&format!("[[target]]\nname = \"a\"\npid = {pid}\n"));
        assert!(text.contains("f.toml:3") && text.contains("hint: "), "{text}");
    }
}

#[test]
fn contradictions_name_the_target_and_its_line() {
    let a = "[[target]]\nname = \"a\"\npid = 9\n";
    let text = refused(&format!("{a}{a}"));
    assert!(text.starts_with("f.toml:4: two targets are named 'a'"), "{text}");
    let text = refused(&format!("{a}command = \"x\"\n"));
    assert!(text.starts_with("f.toml:1: ") && text.contains("in 2 ways"), "{text}");
    let text = refused("[[target]]\nname = \"a\"\n");
    assert!(text.contains("in 0 ways"), "{text}");
    let text = refused("[[target]]\npid = 9\n");
    assert!(text.contains("missing field `name`"), "{text}");
    let b = "[[target]]\nname = \"b\"\npid = 2\nslow = \"zram:size=2GiB\"\n";
    let text = refused(&format!("{a}slow = \"zram:size=1GiB\"\n{b}"));
    assert!(text.starts_with("f.toml:5: ") && text.contains("different zram"), "{text}");
    let text = refused(&format!("{a}limit = \"node:1=1GiB\"\n"));
    assert!(text.starts_with("f.toml:1: ") && text.contains("leaves open"), "{text}");
    let text = refused(&format!("{a}slow = \"zram\"\nlimit = \"node:1=1GiB\"\n"));
    assert!(text.contains("'a'") && text.contains("`node:1`"), "{text}");
    let same = format!("{a}slow = \"zram:size=2048MiB\"\n{b}");
    assert_eq!(Config::parse("f", &same).unwrap().targets.len(), 2, "the same size");
}

#[test]
fn a_command_is_of_the_user_who_runs_the_daemon_unless_another_is_named() {
    let owner = |text: &str| match target(text).selection() {
        Selection::Command { owner, .. } => owner,
        other => panic!("{other:?}"),
    };
    assert_eq!(owner(""), Owner::own());
    assert_eq!(owner("user = \"*\""), Owner::Anybody);
    for text in ["user = \"root\"", "user = 0", "user = \"0\""] {
        assert_eq!(owner(text), Owner::parse("root").unwrap(), "{text}");
    }
    let text = refused("[[target]]\nname = \"a\"\npid = 7\nuser = 0\n");
    assert!(text.contains("'a' names a user") && text.contains("hint: "), "{text}");
    let shown = toml::to_string(&target("user = 0")).unwrap();
    assert!(shown.contains("user = \"0\""), "{shown}");
}

#[test]
fn slow_tiers_are_one_or_several() {
    assert_eq!(target("slow = \"zram\"").options.slow.unwrap().text(), "zram");
    let text = "slow = [\"node:1\", \"zram\"]\nlimit = [\"node:1=2GiB\", \"zram=10%\"]";
    let both = target(text);
    assert_eq!(both.options.slow.as_ref().unwrap().iter().count(), 2);
    let shown = toml::to_string(&both).unwrap();
    assert!(shown.contains(text), "{shown}");
    assert!(toml::to_string(&target("slow = \"zram\"")).unwrap().contains("slow = \"zram\"\n"));
}

#[test]
fn what_is_shown_is_read_back() {
    let text = "[daemon]\nfast = \"8GiB\"\n[metrics]\nlisten = \"127.0.0.1:1\"\n\
        [[target]]\nname = \"a\"\ncommand = \"b\"\n[[target]]\nname = \"c\"\ncgroup = \"x\"\n\
        priority = 7\nslow = \"none\"\nchildren = false\n\
        consolidate = { hot_pages = 290, every = \"5s\", inject = true }\n\
        [[target]]\nname = \"d\"\npid = 9\nconsolidate = {}\n";
    let config = Config::parse("f", text).unwrap();
    let shown = toml::to_string(&config).unwrap();
    assert!(shown.contains("policy = \"frost\"") && shown.contains("priority = 50"), "{shown}");
    assert_eq!(Config::parse("g", &shown).unwrap(), config);
    assert!(shown.contains("hot_pages = \"auto\"") && shown.contains("every = \"30s\""), "{shown}");
    assert_eq!(config.daemon.total(), Some(Limit::Size(Bytes(8 << 30))));
    assert_eq!(Config::parse("f", "").unwrap(), Config::default());
}

#[test]
fn only_limits_can_change_while_a_target_is_managed() {
    let plain = target("fast = \"40%\"");
    assert!(plain.differs_in_limits_only(&target("fast = \"1GiB\"\npriority = 9")));
    assert!(!plain.differs_in_limits_only(&target("fast = \"40%\"\nslow = \"none\"")));
    let with_a_goal = target("");
    assert!(!plain.differs_in_limits_only(&with_a_goal), "which is kept to in another way");
    assert!(with_a_goal.differs_in_limits_only(&target("priority = 9")));
    assert!(!plain.differs_in_limits_only(&target("dry_run = true")));
}

#[test]
fn what_shall_be_saved_is_less_than_there_is_and_no_second_limit() {
    let saved = |line: &str| Config::parse("f.toml", &format!("[daemon]\n{line}\n"));
    let total = saved("save = \"1MiB\"").unwrap().daemon.total();
    assert_eq!(total, Some(Limit::AllBut(Bytes(1 << 20))));
    for (lines, says) in [
        ("save = \"0\"", "too few"),
        ("save = \"4000TiB\"", "of this machine"),
        ("save = \"40%\"", "40%"),
        ("save = \"1GiB\"\nfast = \"1GiB\"", "both fast and save"),
    ] {
        let text = saved(lines).expect_err(lines).to_string();
        assert!(text.starts_with("f.toml:2: ") && text.contains(says), "{lines}: {text}");
        assert!(text.contains("\nhint: "), "{lines}: {text}");
    }
    let text = refused("[[target]]\nname = \"a\"\npid = 9\nfast = \"all-4000TiB\"\n");
    assert!(text.starts_with("f.toml:1: target 'a': ") && text.contains("hint: "), "{text}");
}

#[test]
fn what_the_command_line_saves_is_a_limit() {
    let options = |line: &str| CommandLine::parse_from(line.split(' ')).tiering.options();
    let saved = options("frostline --save 100MiB").unwrap();
    let goal = saved.goal().expect("it is come to step by step");
    let floor = Some(Limit::AllBut(Bytes(100 << 20)));
    assert_eq!((goal.most_loss, goal.floor, goal.ceiling), (ANY_LOSS, floor, None));
    let both = options("frostline --save 100MiB --max-slowdown 2%").unwrap();
    assert_eq!(both.goal().and_then(|goal| goal.floor), Some(Limit::AllBut(Bytes(100 << 20))));
    for (line, says) in [
        ("--save 0", "too few"),
        ("--save 1KiB", "less than a page"),
        ("--save 4000TiB", "of this machine"),
        ("--save 1GiB --fast 40%", "--save and --fast"),
        ("--save 1GiB --min-fast 40%", "--save and --min-fast"),
        ("--save much", "much"),
    ] {
        let error = options(&format!("frostline {line}")).expect_err(line);
        let text = frostline_terminal::errors::text(&error);
        assert!(text.contains(says) && text.contains("hint: "), "{line}: {text}");
    }
}

#[test]
fn targets_of_an_included_file_come_after_those_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let [file, more] = ["f.toml", "more.toml"].map(|name| folder.path().join(name));
    let target = |name: &str| format!("[[target]]\nname = \"{name}\"\ncommand = \"b\"\n");
    let include = format!("[daemon]\ninclude = {more:?}\n\n{}", target("one"));
    std::fs::write(&file, include).unwrap();
    let names = || {
        let config = Config::load(&file).map_err(|error| error.to_string())?;
        Ok::<Vec<String>, String>(config.targets.into_iter().map(|target| target.name).collect())
    };
    // It may be missing.
    assert_eq!(names().unwrap(), ["one"]);
    std::fs::write(&more, target("two")).unwrap();
    assert_eq!(names().unwrap(), ["one", "two"]);
    for (text, wrong) in [
        (format!("\n{}", target("one")), "more.toml:2: two targets are named 'one'"),
        ("[daemon]\nfast = \"1GiB\"\n".into(), "more.toml:1: unknown key `daemon`"),
        ("[[target]]\nname = \"two\"\n".into(), "more.toml:1: target 'two' says in 0 ways"),
    ] {
        std::fs::write(&more, text).unwrap();
        let said = names().unwrap_err();
        assert!(said.contains(wrong) && said.contains("hint: "), "{said}");
    }
    std::fs::remove_file(&more).unwrap();
    std::fs::create_dir(&more).unwrap();
    assert!(names().unwrap_err().starts_with("cannot read "));
}
