//! Replays traces of real programs against a modelled tiered-memory machine.
