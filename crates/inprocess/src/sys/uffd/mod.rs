//! Pages of this process that are taken out of their places for a while, so that whoever touches
//! them waits until they are back.

mod calls;
mod question;
mod room;
#[cfg(test)]
mod tests;
mod userfault;
mod writes;

pub use calls::open;
pub use userfault::{Back, Block, Event, Taken, Userfault};
pub use writes::Writes;
