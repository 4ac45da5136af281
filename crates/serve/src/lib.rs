//! Page of what Frostline does on this machine, for browsers: every target, second by second, and the last hour.
//!
//! [`Access`] decides who may see it, and [`http`] limits what a client can take. Without a [`Control`] nothing can be
//! changed by it.
#![forbid(unsafe_code)]

mod access;
mod assets;
mod control;
mod heat;
mod history;
pub mod http;
mod machine;
mod page;
mod warnings;

pub use access::Access;
pub use control::Control;
pub use page::Page;
