"""Experiments of papers on a cluster of Dask, by the program that repeats them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from distributed import LocalCluster

REPRO = Path(os.environ.get("FROSTLINE_REPRO", ""))

EXPERIMENT = """
title = "t"
paper = "p"
about = "a"
fast = ["1:8"]
policies = "memtis,all-slow"
seeds = 3
[[workload]]
name = "Zipf"
trace = "synth:zipf:pages=4K:accesses=300K"
[[workload]]
name = "Shift"
trace = "synth:shift:pages=4K:accesses=300K"
[[result]]
what = "speed"
measure = "gain"
of = "memtis"
over = "all-slow"
paper = 7
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    if not REPRO.is_file():
        pytest.skip("FROSTLINE_REPRO does not name frostline-repro")
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "small.toml").write_text(EXPERIMENT)
    return tmp_path


def command(folder: Path, results: str, *words: str) -> list[str]:
    return [str(REPRO), "all", str(folder / "files"), "--results", str(folder / results), *words]


def test_what_a_cluster_makes_is_what_is_made_here(folder: Path) -> None:
    environment = {**os.environ, "FROSTLINE_PYTHON": sys.executable}
    scratch = folder / "scratch"
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, local_directory=str(scratch)) as cluster:
        words = command(folder, "there", "--scheduler", cluster.scheduler_address)
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert "2 workers" in done.stderr and "[6/6]" in done.stderr, done.stderr
        # The workers have the program from the client.
        assert len(list(scratch.rglob("frostline-repro-*"))) == 2
    subprocess.run(command(folder, "here"), capture_output=True, check=True)
    there, here = ((folder / name / "small.json").read_bytes() for name in ("there", "here"))
    assert there == here


def test_a_cluster_that_is_stopped_goes_on(folder: Path) -> None:
    environment = {**os.environ, "FROSTLINE_PYTHON": sys.executable}
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster:
        words = command(folder, "there", "--scheduler", cluster.scheduler_address)
        running = subprocess.Popen(words, env=environment, stderr=subprocess.PIPE, text=True)
        pieces = folder / "there" / "runs" / "small"
        until = time.monotonic() + 60
        while time.monotonic() < until and not (pieces.is_dir() and any(pieces.glob("*.json"))):
            time.sleep(0.02)
        running.send_signal(signal.SIGINT)
        _, told = running.communicate(timeout=60)
        if running.returncode == 0:
            pytest.skip("it was faster than the signal")
        assert "the same command goes on" in told, told
        made = len(list(pieces.glob("*.json")))
        assert 0 < made < 6
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert f"[{6 - made}/{6 - made}]" in done.stderr, done.stderr


def test_nobody_at_an_address_is_said(folder: Path) -> None:
    environment = {**os.environ, "FROSTLINE_PYTHON": sys.executable, "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "2s"}
    words = command(folder, "there", "--scheduler", "tcp://127.0.0.1:9")
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert "127.0.0.1:9" in done.stderr and "hint: see that the scheduler runs" in done.stderr, done.stderr
