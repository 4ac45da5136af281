//! Bound on what any placement of pages over memory tiers can save.
//!
//! [`EpochMatrix`] holds a trace page by page. [`solve`] computes from it an upper bound on the
//! time that fast memory of a given size can save, whatever the policy knows and whenever it moves
//! pages, and a feasible [`Plan`] that shows how near to that bound a placement gets that knows
//! the future. Their distance, the gap, says how much of the bound may be out of reach.
//!
//! The bound is a Lagrangian dual: every tick of time has a price for a page's worth of fast
//! memory, each page chooses its best residencies at these prices on its own, and the prices are
//! improved until supply meets demand. Every set of prices gives a valid bound. `docs/notes/bound.md`
//! states exactly which policies it binds, and proves it.
//!
//! ```no_run
//! # fn print(source: &mut dyn frostline_trace::TraceSource) -> Result<(), frostline_bound::BoundError> {
//! use frostline_bound::{BoundModel, EpochChoice, EpochMatrix, SolveOptions, solve};
//!
//! let matrix = EpochMatrix::from_source(source, EpochChoice::default())?;
//! let model = BoundModel {
//!     read_saving_ns: 97.0,
//!     write_saving_ns: 97.0,
//!     write_back_saving_ns: 0.0,
//!     promotion_cost_ns: 400.0,
//!     demotion_cost_ns: 400.0,
//!     capacity_pages: matrix.peak_resident_pages() / 3,
//! };
//! let bound = solve(&matrix, &model, &SolveOptions::default())?;
//! println!("at most {:.3} s, gap {:.2} %", bound.saving_upper_ns / 1e9, bound.gap * 100.0);
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod builder;
mod dual;
mod matrix;
mod model;
mod plan;
mod prices;
mod repair;
mod walk;

pub use dual::{Bound, SolveOptions, solve};
pub use matrix::{EpochChoice, EpochCursor, EpochMatrix};
pub use model::{BoundError, BoundModel};
pub use plan::{Plan, PlanError, Residency};
