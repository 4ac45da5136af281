//! Memory of the machine, and the kernel's settings for it.

use super::capability::Capability;
use super::rights::is_admin;
use frostline_linux::LinuxError;
use frostline_linux::Root;
use frostline_linux::accesses::balancing;
use frostline_linux::groups::Trees;
use frostline_linux::swap;
use frostline_linux::topology::{Topology, format_list};

pub fn examine(root: &Root) -> Vec<Capability> {
    let mut found = match Topology::read(root) {
        Ok(topology) => vec![
            numa_nodes(&topology),
            memory_tiers(&topology),
            hmat(&topology),
            numa_balancing_off(root, &topology),
        ],
        Err(error) => vec![Capability::failed("numa-nodes", &error)],
    };
    found.extend([
        huge_pages(root),
        Capability::of("swap", swap_areas(root)),
        Capability::of("zram", zram(root)),
        Capability::of("zswap", zswap(root)),
        Capability::of("cgroup-v2", cgroup(root)),
    ]);
    found
}

fn gib(bytes: u64) -> f64 {
    bytes as f64 / (1u64 << 30) as f64
}

fn numa_nodes(topology: &Topology) -> Capability {
    let name = "numa-nodes";
    let nodes: Vec<String> = topology
        .nodes
        .iter()
        .map(|node| {
            let cpus = match node.cpus.as_slice() {
                [] => "no processors".into(),
                cpus => format!("processors {}", format_list(cpus)),
            };
            format!("node {}: {:.3} GiB, {cpus}", node.id, gib(node.total_bytes))
        })
        .collect();
    let why = nodes.join("; ");
    if topology.nodes.iter().filter(|node| node.total_bytes > 0).count() > 1 {
        Capability::yes(name, why)
    } else {
        Capability::no(name, format!("only one has memory: {why}"))
            .hint("a slow tier can be compressed memory instead: --slow zram")
    }
}

fn memory_tiers(topology: &Topology) -> Capability {
    let name = "memory-tiers";
    let lower = topology.lower_nodes();
    if !lower.is_empty() {
        let list = format_list(&{
            let mut sorted = lower.clone();
            sorted.sort_unstable();
            sorted
        });
        return Capability::yes(name, format!("slower than where programs run: nodes {list}"));
    }
    match topology.tiers.len() {
        0 => Capability::no(name, "the kernel does not sort nodes into tiers")
            .hint("needs Linux 6.1 with CONFIG_NUMA and CONFIG_MIGRATION"),
        _ if topology.nodes.len() < 2 => Capability::no(name, "there is only one node"),
        _ => Capability::no(
            name,
            "no node is in a lower tier than those with processors: all are one tier to the \
             kernel, and nothing is demoted",
        )
        .hint("firmware must report speeds (HMAT); name the node yourself: --slow node:N"),
    }
}

fn hmat(topology: &Topology) -> Capability {
    let name = "hmat";
    let reported: Vec<String> = topology
        .nodes
        .iter()
        .filter_map(|node| {
            let speed = node.performance?;
            let (latency, bandwidth) = (speed.read_latency_ns, speed.read_bandwidth_mib);
            Some(format!("node {}: {latency} ns, {bandwidth} MiB/s", node.id))
        })
        .collect();
    if reported.is_empty() {
        Capability::no(name, "firmware reports no speed of memory")
            .hint("look for HMAT in the firmware's settings; virtual machines: -machine hmat=on")
    } else {
        Capability::yes(name, reported.join("; "))
    }
}

fn numa_balancing_off(root: &Root, topology: &Topology) -> Capability {
    let name = "numa-balancing-off";
    match topology.numa_balancing {
        None => Capability::yes(name, "not built into the kernel"),
        Some(0) => Capability::yes(name, "kernel.numa_balancing is 0"),
        Some(mode) if balancing::is_ours(root).unwrap_or(false) => {
            let why = format!("kernel.numa_balancing is {mode}, set by a run that sees touches so");
            Capability::yes(name, why)
        }
        Some(mode) => Capability::no(
            name,
            format!("kernel.numa_balancing is {mode}: the kernel moves pages against us"),
        )
        .hint("sysctl kernel.numa_balancing=0"),
    }
}

fn huge_pages(root: &Root) -> Capability {
    let name = "huge-pages";
    let path = "/sys/kernel/mm/transparent_hugepage/enabled";
    match root.read(path) {
        Err(_) => Capability::no(name, "not built into the kernel")
            .hint("needs CONFIG_TRANSPARENT_HUGEPAGE"),
        Ok(text) => match text.split(['[', ']']).nth(1) {
            Some("always") => Capability::yes(name, "for every program"),
            Some("madvise") => Capability::yes(name, "for programs that ask for them"),
            _ => Capability::no(name, format!("the setting is '{text}'"))
                .hint(format!("echo madvise > {path}")),
        },
    }
}

fn swap_areas(root: &Root) -> Result<Capability, LinuxError> {
    let name = "swap";
    let areas: Vec<String> = swap::devices(root)?
        .iter()
        .map(|area| {
            let (used, size) = (gib(area.used.0), gib(area.size.0));
            format!("{}: {used:.3} of {size:.3} GiB used", area.path.display())
        })
        .collect();
    Ok(if areas.is_empty() {
        Capability::no(name, "no swap in use").hint("a compressed one on request: --slow zram")
    } else if swap::is_full(root)? {
        Capability::no(name, format!("full: {}", areas.join("; ")))
    } else {
        Capability::yes(name, areas.join("; "))
    })
}

fn zram(root: &Root) -> Result<Capability, LinuxError> {
    let name = "zram";
    let devices: Vec<String> =
        root.list("/sys/block")?.into_iter().filter(|name| name.starts_with("zram")).collect();
    let is_free = |device: &&String| {
        root.read(format!("/sys/block/{device}/disksize")).is_ok_and(|size| size == "0")
    };
    let free = devices.iter().find(is_free);
    let adds = root.path("/sys/class/zram-control/hot_add").exists();
    Ok(match free {
        _ if devices.is_empty() && !adds => {
            Capability::no(name, "its driver is not loaded").hint("modprobe zram")
        }
        _ if !is_admin(root) => {
            Capability::no(name, "setting a device up needs CAP_SYS_ADMIN").hint("run as root")
        }
        _ if let Some(others) = swap::never_behind(root, None)? => Capability::no(
            name,
            format!("swap of the highest priority would not come after: {others}"),
        )
        .hint(swap::LOWER),
        Some(device) => Capability::yes(name, format!("/dev/{device} is free to be set up")),
        None if adds => Capability::yes(name, "another device can be added"),
        None => Capability::no(name, format!("in use by others: {}", devices.join(", ")))
            .hint("use the swap that is there: --slow swap"),
    })
}

fn zswap(root: &Root) -> Result<Capability, LinuxError> {
    let name = "zswap";
    Ok(match swap::zswap(root)? {
        None => Capability::no(name, "not built into the kernel"),
        Some(zswap) if zswap.enabled => Capability::yes(
            name,
            format!("on, {}, at most {} % of memory", zswap.compressor, zswap.max_pool_percent),
        ),
        Some(_) => Capability::no(name, "off; not needed where swap is zram")
            .hint("echo Y > /sys/module/zswap/parameters/enabled"),
    })
}

fn cgroup(root: &Root) -> Result<Capability, LinuxError> {
    let name = "cgroup-v2";
    let trees = Trees::read(root)?;
    let Some(mount) = trees.unified() else {
        return Ok(Capability::no(name, "not mounted")
            .hint("mount -t cgroup2 none /sys/fs/cgroup, or name processes instead of cgroups"));
    };
    let controllers = root.read(mount.join("cgroup.controllers"))?;
    let memory = controllers.split_whitespace().any(|controller| controller == "memory");
    let place = mount.display();
    Ok(if memory {
        Capability::yes(name, format!("at {place}, with the memory controller"))
    } else {
        Capability::no(name, format!("at {place}, without the memory controller"))
            .hint("boot with cgroup_no_v1=all; programs can be found by cgroup without it")
    })
}
