//! Facts of the guest that the machine must know, as the guest's own kernel tells them.

use anyhow::Context;
use btf_rs::{Btf, Type};
use frostline_linux::Root;
use frostline_linux::lab::{Guest, NodeRange};

const SRAT: &str = "/sys/firmware/acpi/tables/SRAT";
const SYMBOLS: &str = "/proc/kallsyms";
const BTF: &str = "/sys/kernel/btf/vmlinux";

/// Reads it.
///
/// # Errors
/// Where a table is missing or has another form.
pub fn guest(root: &Root) -> anyhow::Result<Guest> {
    let read = |path: &str| std::fs::read(root.path(path)).context(path.to_owned());
    let ranges = memory_ranges(&read(SRAT)?);
    anyhow::ensure!(!ranges.is_empty(), "{SRAT} names no memory");
    let symbols = root.read(SYMBOLS)?;
    // Linux 6.2 to 6.14 keep it first in the structure of this name, others by itself.
    let current_task = symbol(&symbols, "pcpu_hot").or_else(|| symbol(&symbols, "current_task"));
    let current_task = current_task.with_context(|| format!("{SYMBOLS} has no running task"))?;
    let btf = Btf::from_bytes(&read(BTF)?).context(BTF)?;
    Ok(Guest {
        ranges,
        current_task,
        tgid_offset: member(&btf, "task_struct", "tgid")?,
        comm_offset: member(&btf, "task_struct", "comm")?,
    })
}

/// Memory affinity structures (ACPI 6.5, 5.2.16.2) that are enabled.
fn memory_ranges(table: &[u8]) -> Vec<NodeRange> {
    const HEADER: usize = 48;
    const MEMORY: u8 = 1;
    let mut ranges = Vec::new();
    let mut rest = table.get(HEADER..).unwrap_or_default();
    while let [kind, length, ..] = *rest {
        let Some((entry, after)) = rest.split_at_checked(length.max(2).into()) else { break };
        rest = after;
        let word = |at: usize| -> Option<u32> {
            Some(u32::from_le_bytes(entry.get(at..at + 4)?.try_into().ok()?))
        };
        let long = |at: usize| Some(u64::from(word(at)?) | u64::from(word(at + 4)?) << 32);
        if kind == MEMORY
            && let (Some(node), Some(start), Some(bytes), Some(flags)) =
                (word(2), long(8), long(16), word(28))
            && flags & 1 != 0
            && bytes > 0
        {
            ranges.push(NodeRange { start, end: start.saturating_add(bytes), node });
        }
    }
    ranges
}

fn symbol(symbols: &str, name: &str) -> Option<u64> {
    symbols.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        let (address, found) = (words.next()?, words.nth(1)?);
        (found == name).then(|| u64::from_str_radix(address, 16).ok())?
    })
}

/// Offset of a member in bytes.
fn member(btf: &Btf, structure: &str, name: &str) -> anyhow::Result<u32> {
    let wanted = || format!("{BTF} has no {structure}.{name}");
    for found in btf.resolve_types_by_name(structure).with_context(wanted)? {
        let Type::Struct(found) = found else { continue };
        for member in &found.members {
            if btf.resolve_name(member).is_ok_and(|found| found == name) {
                return Ok(member.bit_offset() / 8);
            }
        }
    }
    anyhow::bail!(wanted())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_those_of_enabled_memory() {
        let mut table = vec![0; 48];
        let mut entry = |node: u32, start: u64, bytes: u64, flags: u32| {
            let mut all = vec![1, 40];
            all.extend(node.to_le_bytes());
            all.extend([0; 2]);
            all.extend(start.to_le_bytes());
            all.extend(bytes.to_le_bytes());
            all.extend([0; 4]);
            all.extend(flags.to_le_bytes());
            all.resize(40, 0);
            table.extend(all);
        };
        entry(0, 0, 0xa0000, 1);
        entry(1, 0x1000_0000, 0x2000_0000, 1);
        entry(0, 0x1_0000_0000, 0x1000, 0);
        table.extend([0, 16]);
        assert_eq!(
            memory_ranges(&table),
            [
                NodeRange { start: 0, end: 0xa0000, node: 0 },
                NodeRange { start: 0x1000_0000, end: 0x3000_0000, node: 1 },
            ]
        );
        assert_eq!(memory_ranges(&[0; 20]), []);
    }

    #[test]
    fn symbols_are_found_by_their_whole_name() {
        let text = "000000000002d3c0 D pcpu_hot_not\n000000000002d400 D pcpu_hot\n";
        assert_eq!(symbol(text, "pcpu_hot"), Some(0x2d400));
        assert_eq!(symbol(text, "current_task"), None);
    }
}
