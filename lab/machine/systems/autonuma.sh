# Linux's own tiering: NUMA balancing promotes by hint faults, reclaim demotes.
start() {
    echo 1 >/sys/kernel/mm/numa/demotion_enabled
    echo 2 >/proc/sys/kernel/numa_balancing
}
