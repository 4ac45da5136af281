//! Records of the kernel's performance events: in front the description of a tracepoint, behind a line `%%` the
//! fields that samples have, and records.

use super::tree::{Tree, parts};
use crate::target::Target;
use frostline_core::span::ExtentChange;
use frostline_linux::pages::extents::Extents;
use frostline_linux::pages::pagemap::PageEntry;
use frostline_linux::perf::record::{Record, for_each};
use frostline_linux::perf::tracefs::{Tracefs, id_of};
use frostline_linux::perf::tracepoints::Change;

const PLACE: &str = "/t/events/damon/damon_aggregated/format";
const MOUNTS: &str = "tracefs /t tracefs rw 0 0\n";
const FIELDS: [&str; 6] = ["start", "end", "nr_accesses", "age", "ret", "common_pid"];

pub const TARGET: Target = Target {
    name: "events",
    check,
    seeds,
    words: &[
        "\tfield:unsigned long start;\toffset:24;\tsize:8;\tsigned:0;\n",
        "ID: 7\n",
        "field:",
        "offset:",
        "size:",
        "signed:1",
        "nr_accesses",
        "%%\n",
    ],
};

fn check(bytes: &[u8]) {
    let mut cut = parts(bytes);
    let (format, records) = (cut.next().unwrap_or_default(), cut.next().unwrap_or_default());
    let tree =
        Tree::new(&[MOUNTS.as_bytes(), b"%%\n", format].concat(), &["/proc/self/mounts", PLACE]);
    let root = tree.root();
    let tracefs = Tracefs::find(&root).ok();
    let format = tracefs.and_then(|fs| fs.format(&root, "damon/damon_aggregated").ok());
    let fields: Vec<_> = format
        .iter()
        .flat_map(|format| FIELDS.iter().filter_map(|name| format.field(name).ok()))
        .collect();

    let Some((mask, records)) = records.split_first_chunk::<8>() else { return };
    let mask = u64::from_le_bytes(*mask);
    let (mut read, mut extents) = (0_u64, Extents::default());
    extents.compare(&[], 0, |_| {});
    let unreadable = for_each(records, mask, |record| {
        read += 1;
        let Record::Sample(sample) = record else { return };
        let _ = id_of(sample.raw);
        let values: Vec<Option<u64>> = fields.iter().map(|field| field.get(sample.raw)).collect();
        assert!(values.iter().flatten().count() <= values.len());
        change(
            &mut extents,
            [sample.ip, sample.address, sample.weight, sample.physical],
            sample.time_ns,
        );
        check_page(PageEntry(sample.data_source));
    });
    assert!(
        (read + unreadable) as usize <= records.len().div_ceil(8),
        "a record has 8 bytes or more"
    );
}

/// Extents lie apart, in order, and what is told of them adds up.
fn change(extents: &mut Extents, [which, a, b, c]: [u64; 4], time: u64) {
    // The kernel tells of no others: five levels of page tables.
    let [a, b, c] = [a, b, c].map(|address| address & ((1 << 56) - 1));
    let change = match which % 4 {
        0 => {
            Change::Map { address: a, len_bytes: b, anonymous: true, private: true, writable: true }
        }
        1 => Change::Unmap { address: a, len_bytes: b },
        2 => Change::Remap { from: a, from_len_bytes: b, to: c, to_len_bytes: b },
        _ => Change::Break { end: a },
    };
    let pages = |extents: &Extents| {
        extents.iter().map(|extent| u128::from(extent.span.pages)).sum::<u128>()
    };
    let mut expected = pages(extents);
    extents.apply(change, time, |change| match change {
        ExtentChange::Mapped { span, .. } => expected += u128::from(span.pages),
        ExtentChange::Unmapped { span } => expected -= u128::from(span.pages),
        ExtentChange::Remapped { .. } => {}
    });
    assert_eq!(pages(extents), expected, "{change:?}");
    let mut end = 0;
    for extent in extents.iter() {
        assert!(!extent.span.is_empty() && extent.span.start.0 >= end, "{change:?}");
        end = extent.span.end().0;
    }
}

fn check_page(page: PageEntry) {
    assert!(!(page.swapped() && page.in_transit()));
    assert!(page.pfn().is_none() || page.present());
    assert!(page.swap_place().is_none() || page.swapped());
}

fn seeds() -> Vec<Vec<u8>> {
    let format = "name: damon_aggregated\nID: 7\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:unsigned long start;\toffset:8;\tsize:8;\tsigned:0;\n\
        \tfield:unsigned long end;\toffset:16;\tsize:8;\tsigned:0;\n\
        \tfield:unsigned int nr_accesses;\toffset:24;\tsize:4;\tsigned:0;\n\
        \tfield:unsigned int age;\toffset:28;\tsize:4;\tsigned:0;\n";
    // Instruction, thread, time, address, raw data, weight, source, physical address.
    let mask: u64 = 1 | 2 | 4 | 8 | 1 << 10 | 1 << 14 | 1 << 15 | 1 << 19;
    let mut records = Vec::new();
    for (i, (ip, address, weight)) in [
        (0_u64, 0x1000_0000_u64, 0x20_0000_u64),
        (3, 0x5000, 0),
        (2, 0x1000_0000, 0x1_0000),
        (1, 0x1000_0000, 0x1000),
    ]
    .into_iter()
    .enumerate()
    {
        let mut body: Vec<u8> = Vec::new();
        body.extend(ip.to_le_bytes());
        body.extend((7_u64 | 7 << 32).to_le_bytes());
        body.extend((i as u64 + 1).to_le_bytes());
        body.extend(address.to_le_bytes());
        body.extend(36_u32.to_le_bytes());
        body.extend([7; 36]);
        body.extend(weight.to_le_bytes());
        body.extend((1_u64 << 63 | 5).to_le_bytes());
        body.extend(0x7000_0000_u64.to_le_bytes());
        records.extend(9_u32.to_le_bytes());
        records.extend([0, 0]);
        records.extend((body.len() as u16 + 8).to_le_bytes());
        records.extend(body);
    }
    // A process that starts another one, and ends.
    for kind in [7_u32, 4] {
        records.extend(kind.to_le_bytes());
        records.extend([0, 0, 32, 0]);
        records.extend([1; 24]);
    }
    vec![[format.as_bytes(), b"%%\n", &mask.to_le_bytes(), &records].concat()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_has_readable_records_of_every_kind() {
        let seed = &seeds()[0];
        let records = parts(seed).nth(1).expect("behind the format");
        let (mask, records) = records.split_first_chunk::<8>().expect("the mask");
        let mut samples = 0;
        let unreadable = for_each(records, u64::from_le_bytes(*mask), |record| {
            samples +=
                usize::from(matches!(record, Record::Sample(sample) if sample.raw.len() == 36));
        });
        assert_eq!((samples, unreadable), (4, 0));
    }
}
