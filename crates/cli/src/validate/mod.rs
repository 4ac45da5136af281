//! How near generators are to the programs that they stand for.
#![allow(dead_code)]

pub mod programs;
