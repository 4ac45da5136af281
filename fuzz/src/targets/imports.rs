//! Texts that are imported as traces.

use crate::content::check_import;
use crate::target::Target;
use crate::target::texts;
use frostline_trace::header::ClockUnit;
use frostline_trace::import::{DamoSource, PerfSource, TextSource, is_perf_script};
use std::convert::Infallible;

/// Accesses and events that are compared. DAMON's regions stand for many.
const MOST: usize = 1 << 17;

pub const TEXT: Target = Target {
    name: "text",
    check: |bytes| {
        let _ = std::str::from_utf8(bytes).map(is_perf_script);
        check_import(
            || Ok::<_, Infallible>(TextSource::new(bytes, "input", ClockUnit::Nanoseconds)),
            MOST,
        );
    },
    seeds: || {
        texts(&[
            "# time vaddr r|w [tid]\n10 0x200040 r\n11\t2097152 W 7 # more\r\n9000000000000 0x1000 r 7\n\
             9000000000000 0x200fff w\n",
            "0 0 r\n18446744073709551615 0xffffffffffffffff w 4294967295\n",
            "1 0 r\n0 0 r\n",
        ])
    },
    words: &[" r\n", " w\n", "0x", "\t", "#", "18446744073709551615", "4294967295"],
};

pub const PERF: Target = Target {
    name: "perf-script",
    check: |bytes| check_import(|| Ok::<_, Infallible>(PerfSource::new(bytes, "input")), MOST),
    seeds: || {
        texts(&[
            "redis-server 4711/4712 [002]  5.123456:      10000 cpu/mem-loads,ldlat=30/P:     7f1234567890 \
             |OP LOAD|LVL L3 miss\n  a b 7 5.2: mem-stores: ffffffff81000000\n",
            "x 1/1 1.0: page-faults:  0x55d0c0de\n\t    7f00dead main+0x10 (/usr/bin/x)\n# comment\n\n",
            "x 1/1 1.000000001: PERF_RECORD_MMAP2 1/1: [0x0(0x1) @ 0 00:00 0 0]: rw-p x\n",
        ])
    },
    words: &[
        ": ",
        "[000] ",
        "PERF_RECORD_",
        "|OP STORE",
        "|OP LOAD",
        "cpu/mem-loads/P:",
        "damon:",
        "0x",
        "1/1 ",
    ],
};

pub const DAMO: Target = Target {
    name: "damo",
    check: |bytes| check_import(|| DamoSource::new(bytes, "input"), MOST),
    seeds: || {
        texts(&[
            r#"[{"kdamond_idx":0,"context_idx":0,"scheme_idx":null,"target_id":0,"snapshots":[{"start_time":"1 s","end_time":"1.1 s","regions":[{"start":"140.000 TiB","end":"140737488371712","nr_accesses":{"samples":"7","percent":"35 %"},"age":{"usec":0,"aggr_intervals":3}}],"total_bytes":null}]}]"#,
            r#"[{"target_id":1,"start_time":0,"end_time":100000000,"regions":[{"start":4096,"end":8192,"nr_accesses":{"samples":20},"age":{}},{"start":8192,"end":1048576,"nr_accesses":{"percent":"5 %"}}]}]"#,
        ])
    },
    words: &[
        "\"regions\":[",
        "\"nr_accesses\":",
        "\"samples\":",
        "\"percent\":",
        "\"start\":",
        "\"end\":",
        " TiB",
        " s",
        "null",
    ],
};
