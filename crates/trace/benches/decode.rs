//! Speed of decoding and encoding the native format, on one core, from and to memory.
//!
//! Throughput is in records ("elements"). Checksums are verified in every run.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use frostline_core::rng::Rng;
use frostline_core::types::{AccessKind, PageId};
use frostline_trace::batch::Want;
use frostline_trace::event::StreamId;
use frostline_trace::{Batch, MemTrace, TraceHeader, TraceSource, TraceWriter};
use std::hint::black_box;

const RECORDS: u64 = 1 << 22;

/// Zipf-like over 4 Mi pages, scattered over the ids: `rank = n^u` has density about `1 / rank`.
fn page(rng: &mut Rng) -> PageId {
    let rank = f64::from(1 << 22).powf(rng.unit_f64()) as u32;
    PageId(rank.wrapping_mul(0x9e37_79b1) & ((1 << 22) - 1))
}

fn trace(kinds: u64, clock: u64, lines: u64) -> MemTrace {
    let mut rng = Rng::new(7);
    let mut bytes = Vec::new();
    let mut writer = TraceWriter::new(&mut bytes, "bench", &TraceHeader::named("bench")).unwrap();
    let mut now = 0;
    for _ in 0..RECORDS {
        let kind = AccessKind::from_bits(rng.below(kinds) as u8);
        now += rng.below(clock);
        let line = rng.below(lines) as u8;
        writer.access(now, page(&mut rng), kind, StreamId(0), line).unwrap();
    }
    writer.finish().unwrap();
    MemTrace::from_bytes(bytes, "bench")
}

fn decode(trace: &MemTrace, want: Want) -> u64 {
    let mut reader = trace.reader().unwrap();
    reader.want(want);
    let (mut batch, mut records) = (Batch::new(), 0);
    while reader.next_batch(&mut batch).unwrap() {
        records += batch.len() as u64;
        black_box(&batch);
    }
    records
}

fn benches(criterion: &mut Criterion) {
    let pages_only = Want::default();
    let all = Want { clock_deltas: true, lines: true };
    let mut group = criterion.benchmark_group("native");
    group.throughput(Throughput::Elements(RECORDS)).sample_size(20);
    for (name, kinds, clock, lines, want) in [
        ("decode/loads", 1, 1, 1, pages_only),
        ("decode/loads+stores", 2, 1, 1, pages_only),
        ("decode/all-kinds,clock-and-lines-skipped", 4, 64, 64, pages_only),
        ("decode/all-kinds,clock,lines", 4, 64, 64, all),
    ] {
        let trace = trace(kinds, clock, lines);
        println!("{name}: {:.2} B/record", trace.len_bytes() as f64 / RECORDS as f64);
        assert_eq!(decode(&trace, want), RECORDS);
        group.bench_function(name, |bencher| bencher.iter(|| decode(&trace, want)));
    }
    let original = trace(4, 64, 64);
    group.bench_function("decode-and-encode/all", |bencher| {
        bencher.iter(|| MemTrace::capture(&mut original.reader().unwrap()).unwrap().len_bytes());
    });
    group.finish();
}

criterion_group!(decoding, benches);
criterion_main!(decoding);
