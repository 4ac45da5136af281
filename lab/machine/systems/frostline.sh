# Frostline, with the policy and the shares of the processor that the caller names.
start() {
    free=$(awk '/MemFree/ { print $4 }' /sys/devices/system/node/node0/meminfo)
    # What is left is for frostline itself.
    fast=$((free / 1024 - 12))MiB
    wrap="frostline run --policy $policy --slow node:1 --fast $fast --samples pmu
        --cpu-limit $cpu_limit --settling-cpu-limit $settling_cpu_limit --seed $seed
        --summary /out/summary.json --"
}
