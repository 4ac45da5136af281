//! Building blocks for policies that rank pages by how often they are accessed.

pub mod bitmap;
pub mod bloom;
pub mod counts;
pub mod histogram;
pub mod lists;
pub mod paired;
pub mod threshold;
