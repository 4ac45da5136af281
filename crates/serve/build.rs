//! Build of the page that browsers get, by npm, into the folder of cargo's. Where there is no npm, a page that says so
//! stands in; with `FROSTLINE_PAGE=required` that is an error.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

/// What the page is made of.
const SOURCES: &[&str] =
    &["index.html", "package.json", "package-lock.json", "tsconfig.json", "vite.config.js", "src"];
/// What comes of it.
const FILES: &[&str] = &["index.html", "app.js", "app.css"];
const STAND_IN: &str = "<!doctype html><html lang=\"en\"><title>Frostline</title>\
    <p>This frostline was built without its page, which takes npm. frostline status --watch shows the same.</html>";
const VARIABLE: &str = "FROSTLINE_PAGE";

fn main() -> io::Result<()> {
    println!("cargo:rerun-if-env-changed={VARIABLE}");
    for source in SOURCES {
        println!("cargo:rerun-if-changed=page/{source}");
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    let (work, assets) = (out.join("page"), out.join("assets"));
    fs::create_dir_all(&assets)?;
    fs::create_dir_all(&work)?;
    for source in SOURCES {
        // A file that is gone would be built on.
        let _ = fs::remove_dir_all(work.join(source));
        copy(&Path::new("page").join(source), &work.join(source))?;
    }
    if let Err(why) = build(&work, &assets) {
        if env::var(VARIABLE).is_ok_and(|value| value == "required") {
            return Err(io::Error::other(format!("the page was not built: {why}")));
        }
        println!("cargo:warning=the page of frostline serve was not built: {why}");
        for file in FILES {
            let content = if *file == "index.html" { STAND_IN } else { "" };
            fs::write(assets.join(file), content)?;
        }
    }
    let is_built = fs::metadata(assets.join("app.js"))?.len() > 0;
    println!("cargo:rustc-check-cfg=cfg(page)");
    if is_built {
        println!("cargo:rustc-cfg=page");
    }
    Ok(())
}

fn build(work: &Path, assets: &Path) -> Result<(), String> {
    npm(work, &["ci", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"])?;
    npm(work, &["run", "build", "--silent"])?;
    for file in FILES {
        fs::copy(work.join("dist").join(file), assets.join(file))
            .map_err(|error| format!("{file}: {error}"))?;
    }
    Ok(())
}

fn npm(folder: &Path, words: &[&str]) -> Result<(), String> {
    let run = Command::new("npm").args(words).current_dir(folder).output();
    let done = run.map_err(|error| format!("npm: {error}"))?;
    if done.status.success() {
        return Ok(());
    }
    let said = [done.stdout, done.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    let last = said.lines().rev().find(|line| !line.trim().is_empty());
    Err(format!("npm {}: {}", words[0], last.unwrap_or("no reason given")))
}

/// Copies a file, or a folder with all that is in it.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    if !from.is_dir() {
        return fs::copy(from, to).map(|_| ());
    }
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        copy(&entry.path(), &to.join(entry.file_name()))?;
    }
    Ok(())
}
