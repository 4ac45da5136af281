# DAMON on physical addresses: one thread promotes what is accessed on node 1 in 8 of 20 samples or
# more, another one demotes what is accessed on node 0 in 4 of 20 or less. docs/notes/lab.md says what
# else was tried.
admin=/sys/kernel/mm/damon/admin/kdamonds

# watch NUMBER NODE ACTION TARGET LEAST-ACCESSES MOST-ACCESSES LEAST-AGE
watch() {
    kdamond=$admin/$1
    echo 1 >$kdamond/contexts/nr_contexts
    context=$kdamond/contexts/0
    echo paddr >$context/operations
    echo 20000 >$context/monitoring_attrs/intervals/sample_us
    echo 400000 >$context/monitoring_attrs/intervals/aggr_us
    echo 1000000 >$context/monitoring_attrs/intervals/update_us
    echo 100 >$context/monitoring_attrs/nr_regions/min
    echo 1000 >$context/monitoring_attrs/nr_regions/max
    echo 1 >$context/targets/nr_targets
    regions=$context/targets/0/regions
    lab-guest nodes | awk -v node="$2" '$1 == node' >/tmp/ranges
    wc -l </tmp/ranges >$regions/nr_regions
    region=0
    while read -r _ start end; do
        echo "$start" >$regions/$region/start
        echo "$end" >$regions/$region/end
        region=$((region + 1))
    done </tmp/ranges
    echo 1 >$context/schemes/nr_schemes
    scheme=$context/schemes/0
    echo "$3" >$scheme/action
    echo "$4" >$scheme/target_nid
    echo 400000 >$scheme/apply_interval_us
    pattern=$scheme/access_pattern
    echo 4096 >$pattern/sz/min
    echo 18446744073709551615 >$pattern/sz/max
    echo "$5" >$pattern/nr_accesses/min
    echo "$6" >$pattern/nr_accesses/max
    echo "$7" >$pattern/age/min
    echo 4294967295 >$pattern/age/max
    echo 0 >$scheme/quotas/ms
    echo 33554432 >$scheme/quotas/bytes
    echo 400 >$scheme/quotas/reset_interval_ms
}

start() {
    echo 2 >$admin/nr_kdamonds
    watch 0 1 migrate_hot 0 8 4294967295 0
    watch 1 0 migrate_cold 1 0 4 1
    echo on >$admin/0/state
    echo on >$admin/1/state
}
