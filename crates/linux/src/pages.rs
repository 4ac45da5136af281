//! Pages of processes: where they are, in which folios and frames, and which extents of memory they
//! make up.

pub mod contents;
pub mod extents;
pub mod folio;
pub mod frames;
pub mod pagemap;
