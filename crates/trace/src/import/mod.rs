//! Traces in other formats.

mod text;

pub use text::TextSource;
