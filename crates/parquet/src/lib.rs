//! Export and import of traces as Parquet.
