//! Studies and profiles for people: tables of text, and the HTML report.
//!
//! Everything here gives text; whoever calls prints it or writes it to a file.
#![forbid(unsafe_code)]

pub mod csv;
pub mod details;
pub mod html;
pub mod summary;
pub mod table;
pub mod units;
