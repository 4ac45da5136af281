//! Parts of a machine's description: records whose fields are parameters with a kind and a default.

use super::Workers;
use frostline_core::params::{Kind, Value};

/// Declares a part: a record and a parameter for each field, whose comment says what it does. The
/// literal after `in` is where the part stands in a description. `in each` has no default.
macro_rules! part {
    (
        $(#[$attr:meta])*
        pub struct $name:ident in $section:literal {
            $(
                $(#[doc = $about:literal])+
                $field:ident: $type:ty = $kind:expr, $default:literal;
            )+
        }
    ) => {
        $crate::machine::part::part! {
            $(#[$attr])*
            pub struct $name in each $section {
                $($(#[doc = $about])+ $field: $type = $kind, $default;)+
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $crate::machine::part::default($kind, $default),)+ }
            }
        }
    };
    (
        $(#[$attr:meta])*
        pub struct $name:ident in each $section:literal {
            $(
                $(#[doc = $about:literal])+
                $(#[serde($($serde:tt)*)])?
                $field:ident: $type:ty = $kind:expr, $default:literal;
            )+
        }
    ) => {
        $(#[$attr])*
        pub struct $name {
            $(
                $(#[doc = $about])+
                $(#[serde($($serde)*)])?
                pub $field: $type,
            )+
        }

        impl $name {
            /// Parameters, one for each field.
            pub const PARAMS: &[frostline_core::params::Param] = &[$(
                frostline_core::params::Param::fixed(
                    concat!($section, ".", stringify!($field)),
                    $kind,
                    $default,
                    "",
                    concat!($($about, "\n"),+),
                ),
            )+];
        }
    };
}
pub(crate) use part;

/// Field of a part.
pub(crate) trait Field: Sized {
    /// Of a value of its kind.
    fn of(value: Value) -> Option<Self>;
}

impl Field for f64 {
    fn of(value: Value) -> Option<Self> {
        match value {
            Value::Number(number) => Some(number),
            _ => None,
        }
    }
}

impl Field for u32 {
    fn of(value: Value) -> Option<Self> {
        match value {
            Value::Integer(number) => number.try_into().ok(),
            _ => None,
        }
    }
}

impl Field for bool {
    fn of(value: Value) -> Option<Self> {
        match value {
            Value::Switch(on) => Some(on),
            _ => None,
        }
    }
}

impl Field for Workers {
    fn of(value: Value) -> Option<Self> {
        match value {
            Value::Word("own") => Some(Self::Own),
            Value::Word("shared") => Some(Self::Shared),
            _ => None,
        }
    }
}

/// A default, which tests read.
pub(crate) fn default<T: Field>(kind: Kind, text: &str) -> T {
    let value = Value::read(kind, text, 0.0).ok().and_then(T::of);
    value.expect("a default of its field's kind")
}
