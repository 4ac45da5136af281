//! Frostline's engine and policies.
//!
//! The **engine** owns the truth: where each page is, what is reserved, which moves are in
//! flight, how many bytes may still be moved. A **policy** only proposes. Neither reads a clock,
//! a file, the environment or a source of randomness: time is an argument, events come in by
//! batches, actions are polled. The same code therefore runs live, in the simulator and from a
//! journal, and the same events always give the same actions.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod action;
pub mod budget;
pub mod consolidation;
pub mod engine;
pub mod event;
pub mod foreign;
pub mod hotness;
pub mod limit;
pub mod mappings;
pub mod params;
pub mod placement;
pub mod policy;
pub mod rng;
pub mod span;
pub mod spec;
pub mod types;

pub use action::{Action, Lane, MoveId};
pub use engine::{Engine, EngineConfig, EngineError};
pub use event::Event;
pub use foreign::Foreign;
pub use limit::{Limit, LimitError};
pub use placement::{TierLimits, View};
pub use policy::Policy;
pub use types::*;
