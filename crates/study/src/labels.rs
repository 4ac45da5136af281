//! Names of policies in a study.

use frostline_core::policy::{Group, PolicyError, registry};
use frostline_core::spec;
use frostline_sim::GuestSetup;

/// Policies of a list, checked. Where it names `all`, the references come with them by which numbers can be judged.
///
/// # Errors
/// As [`registry::expand`].
pub fn policies(list: &str) -> Result<Vec<String>, PolicyError> {
    let all = spec::list(list).any(|item| item == "all");
    let references = [registry::FIRST_TOUCH, registry::ALL_FAST, registry::ALL_SLOW].join(",");
    registry::expand(&if all { format!("{list},{references}") } else { list.to_owned() })
}

/// Every policy in every kind of virtual machine: `memtierd`, `memtierd+gpac:cl=50`.
pub fn labels(policies: &[String], guests: &[GuestSetup]) -> Vec<String> {
    let of = |policy: &String| -> Vec<String> {
        match guests.is_empty() {
            true => vec![label(policy, None)],
            false => guests.iter().map(|guest| label(policy, Some(guest))).collect(),
        }
    };
    policies.iter().flat_map(of).collect()
}

fn label(policy: &str, guest: Option<&GuestSetup>) -> String {
    match guest.map(ToString::to_string) {
        None => policy.to_owned(),
        Some(none) if none == "none" => policy.to_owned(),
        Some(guest) => format!("{policy}+{guest}"),
    }
}

/// The policy of a label.
pub fn policy_of(label: &str) -> &str {
    label.split_once('+').map_or(label, |(policy, _)| policy)
}

/// Policies that are no tiering but marks to measure by.
pub fn is_reference(label: &str) -> bool {
    registry::REFERENCES.contains(&policy_of(label))
}

/// Policies that need the future.
pub(crate) fn is_offline(policy: &str) -> bool {
    registry::check(policy).is_ok_and(|entry| entry.group == Group::Offline)
}

/// Policies that one would run: neither references nor with knowledge of the future.
pub fn is_online(label: &str) -> bool {
    !is_offline(policy_of(label)) && !is_reference(label)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guests;

    #[test]
    fn policies_are_named_with_their_guests() {
        let policies = ["tpp".to_owned(), "memtierd:start=slow".to_owned()];
        assert_eq!(labels(&policies, &[]), policies);
        let kinds = guests("none,gpac:cl=50").unwrap();
        let expected = ["tpp", "tpp+gpac:cl=50", "memtierd:start=slow"];
        assert_eq!(labels(&policies, &kinds)[..3], expected);
        assert_eq!(policy_of("tpp+gpac:cl=50"), "tpp");
        assert!(guests("gpac:cl=0").is_err());
    }
}
