"""Policies in Python by name, traces that are elsewhere, and the commands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy
import pandas
import pyarrow
import pyarrow.compute
import pytest
from distributed import Client, LocalCluster

import frostline
from frostline import _named

MODULE = '''
import frostline, numpy

class Latest(frostline.PlacementPolicy):
    """Sampled pages come to fast memory, and whatever is there first makes room."""
    needs = frostline.Needs(load_sample_period=200)

    def __init__(self, offer, most=64):
        super().__init__(offer)
        self.most, self.pages = most, []

    def observe(self, now_ns, samples, view):
        self.pages.extend(samples["page"][samples["tier"] == 1])

    def decide(self, now_ns, view, plan):
        pages, self.pages = numpy.array(self.pages[: self.most], numpy.uint32), []
        fast = numpy.flatnonzero(view.tier_of_pages() == 0)[: len(pages)]
        plan.exchange(pages[: len(fast)], fast)

class Broken(Latest):
    def decide(self, now_ns, view, plan):
        raise IndexError("nothing there")
'''
TRACE = "synth:hotcold:size=8MiB:accesses=300K"


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Name of a module that can be imported, here and by processes that are started."""
    name = f"policies_{abs(hash(tmp_path)):x}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    _named.code_of.cache_clear()
    return name


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "frostline" / "traces"


def file_of(path: Path) -> frostline.Trace:
    times = numpy.arange(200_000)
    return frostline.write(path, times, (times * 7919 % 3000) * 4096)


def program(name: str, *words: str, **how: Any) -> tuple[int, str, str]:
    path = Path(sys.executable).with_name(name)
    done = subprocess.run([path, *words], capture_output=True, text=True, check=False, **how)
    return done.returncode, done.stdout, done.stderr


def test_a_name_finds_its_class(module: str) -> None:
    names = [f"{module}:Latest:most=8", f"{module}:Latest", "first-touch"]
    few, many, none = frostline.compare(TRACE, ",".join(names), "1:4", progress=False)
    assert [run.policy for run in (few, many, none)] == names
    assert 0 < few.report["promoted_bytes"] < many.report["promoted_bytes"] and none.report["promoted_bytes"] == 0
    assert frostline.sim(TRACE, names[0], "1:4", progress=False).report["promoted_bytes"] == few.report["promoted_bytes"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("no_such_module:Policy", "No module named"),
        ("json:NoSuchThing", "has no attribute"),
        ("frostline:NOWHERE", "makes no policies"),
    ],
)
def test_a_name_of_nothing_is_refused(name: str, said: str) -> None:
    with pytest.raises(frostline.UsageError, match=f"(?s){said}.*hint: "):
        frostline.compare(TRACE, name, "1:4", progress=False)


def test_the_command_knows_policies_in_python(module: str, tmp_path: Path) -> None:
    code, table, _ = program("frostline-compare", TRACE, "--policies", f"first-touch,{module}:Latest:most=8", "--fast", "1:4")
    assert code == 0 and f"{module}:Latest:most=8" in table and "first-touch" in table
    code, reports, _ = program(
        "frostline-compare", TRACE, "--policies", f"{module}:Latest", "--fast", "1:4", "--json", "--verify"
    )
    assert code == 0 and json.loads(reports)[0]["policy"] == f"{module}:Latest"
    # Modules of the folder that the user is in.
    without = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    code, _, _ = program("frostline-compare", TRACE, "--policies", f"{module}:Latest", "--fast", "1:4", cwd=tmp_path, env=without)
    assert code == 0
    code, _, said = program("frostline-compare", "none.flt", "--policies", "memtis")
    assert code == 2 and said.startswith("frostline-compare: ")
    code, _, said = program("frostline-compare", TRACE, "--policies", f"{module}:Broken", "--fast", "1:4")
    assert code == 1 and "IndexError: nothing there" in said and "in decide" in said


def test_sweeps_know_them_everywhere(module: str, tmp_path: Path) -> None:
    policies = ["first-touch", f"{module}:Latest:most=8", f"{module}:Broken"]
    frame = frostline.sweep(TRACE, policies, ["1:2", "1:4"], results=tmp_path / "kept", progress=False)
    assert list(frame["policy"]) == policies * 2
    assert [error != "" for error in frame["error"]] == [False, False, True] * 2
    assert frame["error"][2] == "IndexError: nothing there"
    with (
        LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        again = frostline.sweep(TRACE, policies, ["1:2", "1:4"], client=client, progress=False)
    pandas.testing.assert_frame_equal(again, frame, check_exact=True)
    # Another text of the class makes another run of it.
    _named.code_of.cache_clear()
    path = Path(sys.modules[module].__file__ or "")
    path.write_text(path.read_text() + "\n# Changed.\n")
    left = frostline.sweep(TRACE, policies[:2], ["1:2", "1:4"], results=tmp_path / "kept", progress=False, dry_run=True)
    assert list(left["modelled_seconds"].isna()) == [False, True] * 2


def test_traces_are_read_by_address(cache: Path, tmp_path: Path) -> None:
    here = file_of(tmp_path / "a.flt")
    address = f"file://{tmp_path}/a.flt"
    there = frostline.open(address)
    assert there.source == address and len(list(cache.iterdir())) == 1
    assert pyarrow.table(there).equals(pyarrow.table(here))
    frostline.open(address)
    assert len(list(cache.iterdir())) == 1, "it was copied again"
    swept = frostline.sweep(address, "first-touch", "1:4", progress=False)
    assert list(swept["trace"]) == [address] and list(swept["error"]) == [""]
    (tmp_path / "a.flt").unlink()
    file_of(tmp_path / "a.flt")
    os.utime(tmp_path / "a.flt", (1, 1))
    frostline.open(address)
    assert len(list(cache.iterdir())) == 2, "what has changed is copied anew"
    for nowhere in (f"file://{tmp_path}/none.flt", "nosuchprotocol://there/a.flt"):
        with pytest.raises(frostline.FrostlineError, match="(?s)hint: "):
            frostline.open(nowhere)
    assert not list(cache.glob("*.part"))


def test_traces_are_sent_where_they_are_not(cache: Path, tmp_path: Path) -> None:
    file_of(tmp_path / "a.flt")
    here = frostline.sweep(tmp_path / "a.flt", "first-touch,memtis", "1:4", progress=False)
    (tmp_path / "elsewhere").mkdir()
    with LocalCluster(n_workers=0, dashboard_address=None) as cluster, Client(cluster) as client:
        command = [sys.executable, "-m", "distributed.cli.dask_worker", cluster.scheduler_address, "--nthreads", "1"]
        worker = subprocess.Popen(
            [*command, "--no-dashboard", "--no-nanny"],
            cwd=tmp_path / "elsewhere",
            stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        try:
            client.wait_for_workers(1, timeout=60)
            before = os.getcwd()
            os.chdir(tmp_path)
            try:
                # By a path that means nothing to the worker.
                lost = frostline.sweep("a.flt", "first-touch,memtis", "1:4", client=client, progress=False)
                sent = frostline.sweep("a.flt", "first-touch,memtis", "1:4", client=client, scatter=True, progress=False)
            finally:
                os.chdir(before)
        finally:
            worker.kill()
            worker.wait()
    assert all("a.flt" in error for error in lost["error"])
    assert len(list(cache.glob("*.flt"))) == 1
    columns = [column for column in here.columns if column != "trace"]
    pandas.testing.assert_frame_equal(sent[columns], here[columns], check_exact=True)


def test_events_are_a_stream(tmp_path: Path) -> None:
    trace = frostline.synth("ycsb-b:size=8MiB:accesses=100K")
    events = trace.events().to_arrow()
    assert events.num_rows == trace.info(progress=False)["events"] > 0
    kinds = set(events.column("kind").to_pylist())
    assert "map" in kinds, kinds
    maps = events.filter(pyarrow.compute.equal(events["kind"], "map"))
    assert min(maps.column("len_bytes").to_pylist()) > 0 and maps.column("text").null_count == maps.num_rows


def test_a_bound_is_told_by_itself() -> None:
    found = frostline.bound(TRACE, "1:4", progress=False)
    assert 0.0 < found.saving_upper_ns <= found.all_fast_saving_ns and 0.0 <= found.gap <= 1.0
    (run,) = frostline.compare(TRACE, "memtis", "1:4", bound=True, progress=False)
    assert run.bound == found
    assert run.report["share_of_bound"] == pytest.approx(run.report["saving_ns"] / found.saving_upper_ns)
    (run,) = frostline.compare(TRACE, "memtis", "1:4", progress=False)
    assert run.bound is None
    with pytest.raises(frostline.UsageError, match="swap model"):
        frostline.bound(TRACE, "1:4", machine="dram-zram", progress=False)


def test_advice_says_what_is_saved() -> None:
    advice = frostline.advise(TRACE, 0.2, machine="dram-cxl", price={"dram": 4.0, "cxl": 1.5}, progress=False)
    (answer,) = advice.answers
    assert answer.fast_bytes is not None and answer.saved is not None
    assert answer.saved == pytest.approx((advice.footprint_bytes - answer.fast_bytes) / 2**30 * 2.5, rel=1e-3, abs=1e-5)
    assert "saves" in str(advice)
    with pytest.raises(frostline.UsageError, match="cxl"):
        frostline.advise(TRACE, 0.2, machine="dram-cxl", price={"dram": 4.0}, progress=False)
