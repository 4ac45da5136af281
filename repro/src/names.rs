//! Things by the names that a user gives.

use frostline_terminal::errors::usage;

/// Those of these names, in their order; all where none is given. An unknown name is followed by `unknown` in the error.
///
/// # Errors
/// A name that none has.
pub fn chosen<T>(
    all: &'static [T],
    name: fn(&T) -> &'static str,
    names: &[String],
    unknown: &str,
) -> anyhow::Result<Vec<&'static T>> {
    if names.is_empty() {
        return Ok(all.iter().collect());
    }
    let find = |wanted: &String| {
        all.iter().find(|one| name(one) == wanted).ok_or_else(|| {
            let known: Vec<&str> = all.iter().map(name).collect();
            usage(format!("`{wanted}`{unknown}"), format!("there are: {}", known.join(", ")))
        })
    };
    names.iter().map(find).collect()
}
