//! Kit of a recorder: sources, and what must be there to build and run it.

macro_rules! sources {
    ($($path:literal),* $(,)?) => {
        &[$(($path, include_str!(concat!("../../../recorder/", $path)))),*]
    };
}
pub(crate) use sources;

/// What a recorder is made of: a program of its own (GPL-2.0-or-later), carried along to be built
/// where it is missing.
#[derive(Debug)]
pub(crate) struct Kit {
    /// Its folder below `recorder`.
    pub folder: &'static str,
    /// File name of what `make` makes there.
    pub binary: &'static str,
    /// Paths below `recorder`, with their texts.
    pub sources: &'static [(&'static str, &'static str)],
    /// Programs that run it, the best first.
    pub launchers: &'static [&'static str],
    /// What else must be there for it to run.
    pub support: &'static [&'static str],
    /// What must be there to build it. Another version of the last one needs another build.
    pub headers: &'static [&'static str],
    /// What the launcher is called in a sentence.
    pub called: &'static str,
    /// Debian packages that bring all of it.
    pub packages: &'static str,
    /// A command that tells whether the launcher can run a program at all.
    pub trial: &'static str,
}
