"""Replay of a trace through a cache of libCacheSim; prints `accesses misses seconds`.

    libcachesim_replay.py TRACE lru|clock CAPACITY HASHPOWER

The trace is in libCacheSim's own binary format oracleGeneral, which it maps into memory. The whole
replay is one call into its C code (`process_trace`), and only the processor time of that call is
measured: no Python runs in it.
"""

import sys
import time

import libcachesim


def main():
    path, algorithm, capacity, hashpower = sys.argv[1:]
    cache = {"lru": libcachesim.LRU, "clock": libcachesim.Clock}[algorithm](
        int(capacity), hashpower=int(hashpower)
    )
    parameters = libcachesim.ReaderInitParam(ignore_obj_size=True)
    kind = libcachesim.TraceType.ORACLE_GENERAL_TRACE
    reader = libcachesim.TraceReader(path, kind, parameters)
    accesses = reader.get_num_of_req()
    start = time.thread_time()
    miss_ratio, _ = cache.process_trace(reader)
    seconds = time.thread_time() - start
    print(accesses, round(miss_ratio * accesses), seconds)


main()
