# Proactive reclaim in front of NUMA balancing: each second, room is made on node 0 by demoting
# what the kernel's lists call inactive (memory.reclaim of cgroup 2).
start() {
    echo 1 >/sys/kernel/mm/numa/demotion_enabled
    echo 2 >/proc/sys/kernel/numa_balancing
    group=/sys/fs/cgroup/measured
    mkdir -p $group
    echo $$ >$group/cgroup.procs
    (
        echo 0 >/sys/fs/cgroup/cgroup.procs
        while sleep 1; do
            free=$(awk '/MemFree/ { print $4 }' /sys/devices/system/node/node0/meminfo)
            [ "$free" -gt 16384 ] || echo 8M >$group/memory.reclaim 2>/dev/null
        done
    ) &
    background=$!
}
