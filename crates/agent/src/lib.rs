//! Agent: a library that tiers the memory of the program that it is preloaded into
//! (`LD_PRELOAD=libfrostline_agent.so`, `FROSTLINE=hybridtier`), or that is injected into a running
//! program to gather its hot pages on request.
//!
//! The dynamic linker calls `entry`, which starts one thread; a forked child gets one of its own.
//! That thread drives the same engine as a frostline outside. It has memory and files of its own,
//! puts nothing into the program, and whatever fails in it ends the tiering, not the program.
#![deny(unsafe_code)]

mod consolidation;
#[allow(unsafe_code)]
mod entry;
mod life;
mod remarks;
mod report;
mod variables;
mod work;

use frostline_inprocess::inside::Arena;

/// All that is allocated here. The program's allocator is left alone, whatever it is.
#[global_allocator]
static ARENA: Arena = Arena::new(life::out_of_memory);
