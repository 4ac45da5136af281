//! Owners of processes that a target given by a program's name may be: everybody can give a program any name.

use frostline_core::spec::SpecError;
use frostline_linux::Root;
use frostline_linux::process::users::{self, User};
use std::fmt;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// One user's.
    User(User),
    /// Anybody's.
    Anybody,
}

impl Owner {
    /// What stands for anybody.
    pub const ANYBODY: &str = "*";

    /// Who runs this program.
    pub fn own() -> Self {
        Self::User(User::own())
    }

    /// A user's name or number, or [`Self::ANYBODY`].
    ///
    /// # Errors
    /// Where there is no such user.
    pub fn parse(text: &str) -> Result<Self, SpecError> {
        if text == Self::ANYBODY {
            return Ok(Self::Anybody);
        }
        User::find(text).map(Self::User).ok_or_else(|| {
            let what = format!("there is no user {text:?}");
            SpecError::new(what, "give a name or a number as `id` prints it, or \"*\" for anybody")
        })
    }

    /// Whether a process acts as that user and as nobody else: one that was started by another user
    /// and has the rights of this one is not among them.
    pub fn owns(&self, root: &Root, pid: u32) -> bool {
        match self {
            Self::Anybody => true,
            Self::User(user) => users::of_process(root, pid) == Some([user.id; 4]),
        }
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(user) => user.fmt(f),
            Self::Anybody => f.write_str("anybody"),
        }
    }
}
