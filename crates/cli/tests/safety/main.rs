//! Tiering of real programs that check their own memory. Every test needs root and zram, prints
//! why it is skipped where they are missing, and has the system to itself.

mod advise;
mod closed_files;
mod consolidate;
mod daemon;
mod fragments;
mod goal;
mod groups;
mod hostile;
mod incompressible;
mod inject;
mod inside;
mod journal;
mod kill;
mod load;
mod owners;
mod page;
mod policies;
mod programs;
mod reserved;
mod rights;
mod soak;
mod support;
mod system;
mod tiers;
