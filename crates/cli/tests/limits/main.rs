//! Small files and absurd numbers: cost in proportion to what exists, or an error with a hint.

mod imports;
mod journals;
mod numbers;
mod support;
mod traces;
