//! Page of what Frostline does on this machine, for browsers: every target, second by second, and the last hour.
//!
//! Nothing can be changed by it. Who may see it is decided by [`Access`]; [`http`] limits what a client can take.
#![forbid(unsafe_code)]

mod access;
mod assets;
mod heat;
mod history;
pub mod http;
mod machine;
mod page;
mod warnings;

pub use access::Access;
pub use page::Page;
