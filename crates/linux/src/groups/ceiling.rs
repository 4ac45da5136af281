//! An upper limit, as groups have them.

use frostline_core::types::Bytes;

/// What the first version says where there is no limit, and anything above: the largest whole number
/// of pages in a signed word (`PAGE_COUNTER_MAX` in `include/linux/page_counter.h`).
const NO_LIMIT_V1: u64 = i64::MAX as u64 / 4096 * 4096;

/// How much there may be of something. A limit is less than none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ceiling {
    /// So many bytes, `0` included.
    At(Bytes),
    /// As much as there is.
    Unlimited,
}

impl Ceiling {
    /// A file of the first version, such as `memory.limit_in_bytes`; `None` where it holds no number.
    pub(super) fn of_v1(text: &str) -> Option<Self> {
        let bytes = number(text)?;
        Some(if bytes >= NO_LIMIT_V1 { Self::Unlimited } else { Self::At(Bytes(bytes)) })
    }

    /// A file of the second version, such as `memory.max`; `None` where it holds neither a number nor `max`.
    pub(super) fn of_v2(text: &str) -> Option<Self> {
        if text == "max" { Some(Self::Unlimited) } else { Some(Self::At(Bytes(number(text)?))) }
    }

    /// What is left of it where `used` is taken: 0 where more is.
    pub fn left(self, used: Bytes) -> Self {
        self.map(|bytes| bytes.saturating_sub(used))
    }

    /// Both together.
    pub fn plus(self, other: Self) -> Self {
        match other {
            Self::At(more) => self.map(|bytes| bytes.saturating_add(more)),
            Self::Unlimited => Self::Unlimited,
        }
    }

    /// Another number in its place, where there is one.
    pub fn map(self, change: impl FnOnce(Bytes) -> Bytes) -> Self {
        match self {
            Self::At(bytes) => Self::At(change(bytes)),
            Self::Unlimited => Self::Unlimited,
        }
    }

    /// The number; `None` without a limit.
    pub fn bytes(self) -> Option<Bytes> {
        match self {
            Self::At(bytes) => Some(bytes),
            Self::Unlimited => None,
        }
    }
}

/// Digits alone: `parse` would take a sign, too.
pub(super) fn number(text: &str) -> Option<u64> {
    text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn no_number_stands_for_no_limit_in_the_second_version() {
        assert_eq!(Ceiling::of_v2("max"), Some(Ceiling::Unlimited));
        assert_eq!(Ceiling::of_v2("0"), Some(Ceiling::At(Bytes(0))));
        assert_eq!(Ceiling::of_v2("9223372036854771712"), Some(Ceiling::At(Bytes(NO_LIMIT_V1))));
        for bad in ["", "Max", "max ", "+1", "-1", "1 2", "0x10", "18446744073709551616"] {
            assert_eq!(Ceiling::of_v2(bad), None, "{bad}");
        }
    }

    #[test]
    fn one_number_stands_for_no_limit_in_the_first_version() {
        assert_eq!(Ceiling::of_v1("9223372036854771712"), Some(Ceiling::Unlimited));
        assert_eq!(Ceiling::of_v1("9223372036854775807"), Some(Ceiling::Unlimited));
        assert_eq!(
            Ceiling::of_v1("9223372036854767616"),
            Some(Ceiling::At(Bytes(NO_LIMIT_V1 - 4096)))
        );
        for bad in ["", "max", "-1", "unlimited"] {
            assert_eq!(Ceiling::of_v1(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn the_tighter_one_is_the_lesser(a in any::<u64>(), b in any::<u64>(), used in any::<u64>()) {
            let at = |bytes| Ceiling::At(Bytes(bytes));
            prop_assert_eq!(at(a).min(at(b)), at(a.min(b)));
            prop_assert_eq!(at(a).min(Ceiling::Unlimited), at(a));
            prop_assert_eq!(at(a).left(Bytes(used)), at(a.saturating_sub(used)));
            prop_assert_eq!(Ceiling::Unlimited.left(Bytes(used)), Ceiling::Unlimited);
            prop_assert_eq!(at(a).plus(at(b)), at(a.saturating_add(b)));
            prop_assert_eq!(at(a).plus(Ceiling::Unlimited), Ceiling::Unlimited);
        }
    }
}
