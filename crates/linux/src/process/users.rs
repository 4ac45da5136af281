//! Users, and as whom processes act.
//!
//! Sources: credentials(7), proc_pid_status(5), getpwnam(3).

use crate::Root;
use crate::process::field;
use frostline_core::Foreign;
use std::fmt;

/// A user of this system.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct User {
    /// Number.
    pub id: u32,
    /// Name; the number as text where there is none.
    pub name: Foreign,
}

impl User {
    /// As whom this process acts.
    pub fn own() -> Self {
        Self::of(rustix::process::geteuid().as_raw())
    }

    /// The one with this number.
    pub fn of(id: u32) -> Self {
        let known = nix::unistd::User::from_uid(id.into()).ok().flatten();
        Self { id, name: known.map_or_else(|| id.to_string(), |user| user.name).into() }
    }

    /// The one with this name or number; `None` where no user has that name. Numbers need no name.
    pub fn find(text: &str) -> Option<Self> {
        if let Ok(Some(user)) = nix::unistd::User::from_name(text) {
            return Some(Self { id: user.uid.as_raw(), name: user.name.into() });
        }
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        // The highest number stands for no user (chown(2)).
        let id = text.parse().ok().filter(|id| digits && *id != u32::MAX)?;
        Some(Self::of(id))
    }
}

impl fmt::Display for User {
    /// `redis (101)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.id)
    }
}

/// Real, effective and saved user of a process, and as whom it uses files; `None` where it has ended.
pub fn of_process(root: &Root, pid: u32) -> Option<[u32; 4]> {
    let status = root.read(format!("/proc/{pid}/status")).ok()?;
    let mut numbers = field(&status, "Uid")?.split_ascii_whitespace().map(|word| word.parse().ok());
    let mut next = || numbers.next().flatten();
    Some([next()?, next()?, next()?, next()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_name_and_by_number() {
        let root = User::find("root").expect("every system has it");
        assert_eq!((root.id, root.to_string().as_str()), (0, "root (0)"));
        assert_eq!(User::find("0"), Some(root));
        assert_eq!(
            User::find("3999999999").map(|user| user.to_string()).as_deref(),
            Some("3999999999 (3999999999)")
        );
        for text in ["", "no-such-user-here", "+0", "-1", "4294967295", "4294967296", "0x0"] {
            assert_eq!(User::find(text), None, "{text}");
        }
    }

    #[test]
    fn this_process_acts_as_its_user() {
        let users = of_process(&Root::system(), std::process::id()).expect("it runs");
        assert_eq!(users[1], User::own().id);
    }
}
