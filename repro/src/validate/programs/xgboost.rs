//! XGBoost in Python on data of the shape of the Criteo click logs.

use super::recipe::{Loading, Plan, Recipe};
use frostline_record::trust::{Owners, TrustError, cache_home};
use std::path::{Path, PathBuf};

const SCRIPT: &str = include_str!("train.py");

/// A training: "hist", depth 6, 256 bins, 39 features, one thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct XgBoost {
    rows: u32,
    rounds: u32,
}

pub(super) const CRITEO: XgBoost = XgBoost { rows: 300_000, rounds: 10 };

/// The virtual environment of Python where it has to be installed.
fn environment() -> Result<PathBuf, TrustError> {
    Ok(cache_home()?.join("xgboost"))
}

fn installed_version() -> Option<String> {
    let libraries = environment().ok()?.join("lib").read_dir().ok()?.flatten();
    let versions = libraries.map(|python| python.path().join("site-packages/xgboost/VERSION"));
    versions.filter_map(|path| std::fs::read_to_string(path).ok()).next()
}

impl Recipe for XgBoost {
    fn missing(&self) -> Option<String> {
        installed_version().is_none().then(|| {
            let place = match environment() {
                Ok(place) => place.display().to_string(),
                Err(error) => return format!("xgboost is not installed: {error}"),
            };
            format!(
                "xgboost is not in {place}: python3 -m venv {place} && \
                 {place}/bin/pip install 'xgboost>=2,<4'"
            )
        })
    }

    fn version(&self) -> anyhow::Result<String> {
        Ok(installed_version().unwrap_or_default().trim().to_owned())
    }

    fn prepare(&self, dir: &Path) -> anyhow::Result<Plan> {
        let (script, loaded) = (dir.join("train.py"), dir.join("loaded"));
        std::fs::write(&script, SCRIPT)?;
        let python = environment()?.join("bin/python3");
        // By its own name: the environment is known by it.
        Owners::ours().check(&python)?;
        let mut command = vec![python.into_os_string()];
        command.push(script.into_os_string());
        command.extend([self.rows, self.rounds].map(|number| number.to_string().into()));
        command.push(loaded.clone().into_os_string());
        Ok(Plan { command, driver: None, loading: Loading::File(loaded) })
    }

    fn texts(&self) -> &'static [&'static str] {
        &[SCRIPT]
    }
}
