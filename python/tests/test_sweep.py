"""Sweeps on this machine's cores and on clusters of a few processes."""

from __future__ import annotations

import os
import platform
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pandas
import pytest
from distributed import Client, LocalCluster
from distributed.comm.core import CommClosedError

import frostline
from frostline import _native, _sweep, _task

TRACES = ["synth:zipf:size=8MiB:accesses=100K", "synth:hotcold:size=8MiB:accesses=100K"]
POLICIES = "memtis,hybridtier,first-touch"
SIZES = ["1:2", "1:8"]
RUNS = len(TRACES) * 3 * len(SIZES) * 2


def swept(**how: Any) -> pandas.DataFrame:
    return frostline.sweep(TRACES, POLICIES, SIZES, seeds=2, progress=False, **how)


@pytest.fixture(scope="module")
def here() -> pandas.DataFrame:
    return swept()


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Keys of the replays that were made here."""
    keys: list[str] = []
    perform = _task.perform

    def count(task: _task.Task, stop: threading.Event | None = None, content: bytes | None = None) -> dict[str, Any]:
        keys.append(task.key)
        return perform(task, stop, content)

    monkeypatch.setattr(_sweep, "perform", count)
    return keys


def test_a_sweep_is_what_its_replays_are(here: pandas.DataFrame) -> None:
    assert len(here) == RUNS and (here["error"] == "").all()
    asked = here[["trace", "fast", "policy", "seed"]].itertuples(index=False)
    policies = POLICIES.split(",")
    assert [tuple(row) for row in asked] == [
        (trace, fast, policy, seed) for trace in TRACES for fast in SIZES for policy in policies for seed in (1, 2)
    ]
    for row in here.iloc[::5].to_dict("records"):
        trace, seed = f"{row['trace']}:seed={row['seed']}", int(row["seed"])
        (run,) = frostline.compare(trace, row["policy"], row["fast"], seed=seed, progress=False)
        for name in ("slowdown_vs_all_fast", "modelled_seconds", "promoted_bytes", "fast_hit_ratio"):
            assert row[name] == run.report[name], name


def test_slowdowns_of_a_sweep_are_those_of_a_comparison(here: pandas.DataFrame) -> None:
    some = here[(here["trace"] == TRACES[0]) & (here["fast"] == SIZES[0]) & (here["seed"] == 2)]
    runs = frostline.compare(f"{TRACES[0]}:seed=2", POLICIES, SIZES[0], seed=2, progress=False)
    assert list(some["policy"]) == [run.policy for run in runs]
    assert list(some["slowdown"]) == pytest.approx([run.slowdown for run in runs])


def test_what_was_made_is_not_made_again(here: pandas.DataFrame, made: list[str], tmp_path: Path) -> None:
    first = frostline.sweep(TRACES[0], POLICIES, SIZES, seeds=2, results=tmp_path, progress=False)
    assert len(first) == len(made) == RUNS // 2
    made.clear()
    pandas.testing.assert_frame_equal(swept(results=tmp_path), here, check_exact=True)
    assert len(made) == RUNS // 2
    made.clear()
    pandas.testing.assert_frame_equal(swept(results=tmp_path), here, check_exact=True)
    assert made == []
    # Somebody else reads the dataset as one.
    assert len(pandas.read_parquet(tmp_path)) == RUNS
    # Another machine is another run; half a file is none.
    frostline.sweep(TRACES[0], "memtis", "1:2", "dram-cxl", results=tmp_path, progress=False)
    assert len(made) == 1
    assert not list(tmp_path.rglob("*.part"))


def test_a_file_describes_a_sweep(tmp_path: Path) -> None:
    file = tmp_path / "sweep.toml"
    file.write_text(
        f'traces = ["{TRACES[0]}"]\npolicies = "memtis,first-touch"\nfast = ["1:2", "1:8"]\nresults = "{tmp_path}/results"\n'
    )
    program = Path(sys.executable).with_name("frostline-sweep")

    def swept(*options: str) -> tuple[int, str, str]:
        done = subprocess.run([program, file, *options], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    assert swept("--dry-run") == (0, "4 of 4 replays are to be made\n", "")
    words = [str(program.with_name("frostline")), "sweep", "--dry-run", str(file)]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout == "4 of 4 replays are to be made\n"
    code, table, _ = swept()
    assert code == 0 and "memtis" in table and "1:8" in table
    assert swept("--dry-run")[1] == "0 of 4 replays are to be made\n"
    csv = tmp_path / "table.csv"
    assert swept("--csv", str(csv))[0] == 0
    assert list(pandas.read_csv(csv)["policy"]) == ["memtis", "first-touch"] * 2
    file.write_text("trace = []\n")
    code, _, said = swept()
    assert code == 2 and "unknown keys: trace" in said and "hint: " in said
    file.write_text("traces = [")
    assert swept()[0] == 2


def test_a_replay_that_fails_is_a_row(tmp_path: Path) -> None:
    small = "dram-nvm:tiers.nvm.capacity_bytes=1MiB"
    full = frostline.sweep(TRACES[0], "first-touch", "1:2", ["dram-nvm", small], results=tmp_path, progress=False)
    assert list(full["error"] == "") == [True, False], full["error"]
    assert "tiers are full" in full["error"][1] and pandas.isna(full["modelled_seconds"][1])
    with pytest.raises(frostline.UsageError):
        frostline.sweep(TRACES[0], "memtiss", "1:2", progress=False)
    with pytest.raises(FileNotFoundError):
        frostline.sweep(str(tmp_path / "none.flt"), "memtis", "1:2", progress=False)


def test_a_cluster_gives_the_same(here: pandas.DataFrame, tmp_path: Path) -> None:
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        pandas.testing.assert_frame_equal(swept(client=client, results=tmp_path), here, check_exact=True)
        assert len(list(tmp_path.rglob("*.parquet"))) == RUNS


def faults() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have no mallopt")
def test_a_worker_keeps_memory_from_one_replay_for_the_next() -> None:
    trace = "synth:zipf:size=64MiB:accesses=1M"
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:

        def told() -> int:
            numbers: dict[str, int] = client.run(faults)
            return sum(numbers.values())

        def alone(seeds: list[int]) -> int:
            before = told()
            tasks = _task.tasks_of([trace], ["memtis"], ["1:2"], ["dram-nvm"], seeds, {"scale": "scaled", "tlb": True})
            client.gather(client.map(_task.perform, tasks, pure=False))
            return told() - before

        def in_a_sweep(seeds: list[int]) -> int:
            before = told()
            frostline.sweep(trace, "memtis", "1:2", seeds=seeds, client=client, progress=False)
            return told() - before

        alone([1, 2, 3, 4])
        each = alone([5, 6, 7, 8])
        in_a_sweep([9, 10, 11, 12])
        kept = in_a_sweep([13, 14, 15, 16])
        assert kept < each / 2, f"{kept} page faults of four replays, {each} where nothing is kept"
        after = alone([17, 18, 19, 20])
        assert after > each / 2, f"{after} page faults after the sweep, {each} before"


def test_a_worker_that_is_killed_costs_its_run_only(here: pandas.DataFrame) -> None:
    with LocalCluster(n_workers=0, dashboard_address=None) as cluster, Client(cluster) as client:
        command = [sys.executable, "-m", "distributed.cli.dask_worker", cluster.scheduler_address, "--nthreads", "1"]
        command += ["--no-dashboard", "--no-nanny"]
        workers = [subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) for _ in range(3)]
        try:
            client.wait_for_workers(3, timeout=60)

            def kill() -> None:
                time.sleep(0.3)
                os.kill(workers[2].pid, signal.SIGKILL)

            killer = threading.Thread(target=kill)
            killer.start()
            frame = swept(client=client)
            killer.join()
            assert workers[2].wait() == -signal.SIGKILL
        finally:
            for worker in workers:
                worker.kill()
                worker.wait()
    pandas.testing.assert_frame_equal(frame, here, check_exact=True)


def test_a_worker_that_dies_while_it_is_told_fails_nothing(
    here: pandas.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LocalCluster(n_workers=1, dashboard_address=None) as cluster, Client(cluster) as client:
        told = []

        def closed(*_: object) -> None:
            told.append(True)
            raise CommClosedError("Stream is closed")

        monkeypatch.setattr(client, "register_plugin", closed)
        monkeypatch.setattr(client, "unregister_worker_plugin", closed)
        frame = swept(client=client)
        assert len(told) == 2
    pandas.testing.assert_frame_equal(frame, here, check_exact=True)


def test_workers_of_another_version_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with LocalCluster(n_workers=1, dashboard_address=None) as cluster, Client(cluster) as client:
        monkeypatch.setattr(_native, "__version__", "9.9.9")
        with pytest.raises(frostline.UsageError, match="has frostline 0.*and this is 9.9.9"):
            swept(client=client)
