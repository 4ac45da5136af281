"""The package as a user has it: installed, and nothing else of the project."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import matplotlib.pyplot
import numpy
import pandas
import pyarrow
import pytest

import frostline

ZIPF = "zipf:size=16MiB:accesses=400K"


@pytest.fixture
def zipf() -> frostline.Trace:
    return frostline.synth(ZIPF)


def test_a_trace_says_what_it_is(zipf: frostline.Trace) -> None:
    assert repr(zipf) == f"frostline.synth({ZIPF!r})"
    assert zipf.header["clock"] == "instructions"
    info = zipf.info(progress=False)
    assert info["pages_touched"] * 4096 == info["footprint_bytes"] > 0
    assert "zipf" in zipf._repr_html_()


def test_arrow_has_every_access(zipf: frostline.Trace) -> None:
    info = zipf.info(progress=False)
    table = pyarrow.table(zipf)
    assert table.num_rows == info["records"]
    assert table.schema.names == ["page", "kind", "stream", "clock"]
    pages = table.column("page")
    assert len(pages.unique()) == info["pages_touched"]
    kinds = {kind.as_py(): count.as_py() for kind, count in zip(*table.column("kind").value_counts().flatten())}
    by_kind = info["records_by_kind"]
    assert kinds.get(0, 0) == by_kind["load"] and kinds.get(1, 0) == by_kind["store"]
    clocks = table.column("clock").to_numpy()
    assert (clocks[1:] >= clocks[:-1]).all()
    assert clocks[-1] == info["clock_last"]
    # Again from the start, in batches that are decoded when they are asked for.
    reader = pyarrow.RecordBatchReader.from_stream(zipf)
    first = reader.read_next_batch()
    assert 0 < first.num_rows <= 1 << 16
    assert first.column("page").equals(pages.combine_chunks()[: first.num_rows])


def test_runs_are_those_of_the_program(zipf: frostline.Trace) -> None:
    runs = frostline.compare(zipf, "memtis,first-touch", ["1:2", "1:8"], bound=True, progress=False)
    assert [(run.fast, run.policy) for run in runs] == [
        ("1:2", "memtis"),
        ("1:2", "first-touch"),
        ("1:8", "memtis"),
        ("1:8", "first-touch"),
    ]
    for run in runs:
        assert run.slowdown >= 1.0 and 0.0 <= run.fast_hit_ratio < 1.0
        assert 0.0 <= run.report["share_of_bound"] <= 1.0
    assert runs[0].slowdown < runs[2].slowdown
    again = frostline.compare(zipf, "memtis", "1:2", bound=True, progress=False)[0]
    without_host = [{**run.report, "host": None} for run in (runs[0], again)]
    assert without_host[0] == without_host[1]
    frame = runs.to_pandas()
    assert list(frame["policy"]) == [run.policy for run in runs]
    assert {"modelled_seconds", "promoted_bytes", "slowdown_vs_all_fast"} <= set(frame.columns)
    assert "first-touch" in repr(runs) and "<td>memtis</td>" in runs._repr_html_()


def test_slowdowns_are_in_the_order_of_times_whatever_the_pages_are(zipf: frostline.Trace) -> None:
    runs = frostline.compare(zipf, "memtis,hybridtier,first-touch", "1:4", progress=False)
    own = [run.report["slowdown_vs_all_fast"] for run in runs]
    assert any(run.slowdown > own for run, own in zip(runs, own)), "hybridtier has base pages, whose walks are longer"
    times = [run.report["modelled_seconds"] for run in runs]
    least = min(time / slowdown for time, slowdown in zip(times, own))
    assert [run.slowdown for run in runs] == pytest.approx([time / least for time in times])
    assert list(runs.to_pandas()["slowdown"]) == [run.slowdown for run in runs]


def test_a_run_has_its_numbers_over_time(zipf: frostline.Trace) -> None:
    run = frostline.sim(zipf, "hybridtier", "1:4", progress=False)
    assert sum(point["accesses"] for point in run.series) == run.report["accesses"]
    assert "hybridtier" in repr(run)


def test_time_series_are_tables_and_charts(zipf: frostline.Trace) -> None:
    run = frostline.sim(zipf, "memtis", "1:4", progress=False)
    table = run.to_arrow()
    assert table.num_rows == len(run.series) > 10
    assert {"seconds", "fast_hit_ratio", "promoted_bytes", "resident_dram_bytes"} <= set(table.column_names)
    matplotlib.use("Agg")
    drawn = run.plot()
    assert numpy.size(drawn.lines[0].get_xdata()) == len(run.series)
    runs = frostline.compare(zipf, "memtis,first-touch", ["1:4", "1:1"], progress=False)
    lines = runs.plot().lines
    assert [line.get_label() for line in lines] == ["memtis", "first-touch"]
    assert [numpy.size(line.get_xdata()) for line in lines] == [2, 2]
    advice = frostline.advise(zipf, 0.5, progress=False)
    assert len(advice.plot().lines) == 2
    matplotlib.pyplot.close("all")


def test_advice_lies_on_its_curve(zipf: frostline.Trace) -> None:
    advice = frostline.advise(zipf, [0.3, 0.6], progress=False)
    small, large = advice.answers
    assert small.fast_bytes is not None and large.fast_bytes is not None
    assert large.fast_bytes <= small.fast_bytes <= advice.footprint_bytes
    for answer in advice.answers:
        assert answer.fast_bytes is not None and answer.low_bytes is not None and answer.high_bytes is not None
        assert answer.low_bytes <= answer.fast_bytes <= answer.high_bytes, answer
    sizes = [size for size, _ in advice.curve]
    assert sizes == sorted(sizes)
    assert "30 %" in str(advice) and "<table>" in advice._repr_html_()


def test_lists_have_their_defaults() -> None:
    memtis = next(policy for policy in frostline.policies() if policy.name == "memtis")
    assert memtis.group == "principal" and any(param.name == "alpha" for param in memtis.params)
    assert "dram-cxl" in frostline.machines()
    slower = frostline.machine("dram-cxl:tiers.cxl.read_ns=250")
    assert slower.description["tiers"][1]["read_ns"] == 250.0
    run = frostline.sim("synth:" + ZIPF, memtis, "1:4", machine=slower, progress=False)
    assert run.report["machine"] == slower.name


@pytest.mark.parametrize(
    ("ask", "part"),
    [
        (lambda: frostline.synth("zipff"), "zipf"),
        (lambda: frostline.machine("dram-cx"), "hint: "),
        (lambda: frostline.compare("synth:" + ZIPF, "memtiss", "1:8", progress=False), "memtis"),
        (lambda: frostline.compare("synth:" + ZIPF, "memtis", "1:x", progress=False), "hint: "),
        (lambda: frostline.compare("synth:" + ZIPF, "memtis", [], progress=False), "hint: "),
        (lambda: frostline.advise("synth:" + ZIPF, -1.0, progress=False), "hint: "),
        (lambda: frostline.advise("synth:" + ZIPF, float("nan"), progress=False), ""),
        (lambda: frostline.sim("synth:" + ZIPF, "all", "1:8", progress=False), "hint: "),
    ],
)
def test_what_cannot_be_right_is_refused(ask: object, part: str) -> None:
    assert callable(ask)
    with pytest.raises(ValueError) as refused:
        ask()
    assert part in str(refused.value)


def test_what_is_no_trace_is_refused(tmp_path: Path) -> None:
    with pytest.raises(frostline.FrostlineError, match="hint: "):
        frostline.open(tmp_path / "none.flt")
    text = tmp_path / "text.flt"
    text.write_text("no trace at all, but long enough to be one of them")
    with pytest.raises(frostline.FrostlineError):
        frostline.open(text)


def test_arrays_become_a_trace(tmp_path: Path) -> None:
    path = tmp_path / "own.flt"
    addresses = numpy.array([0x1000, 0x2008, 0x1fff, 1 << 40], dtype=numpy.int64)
    trace = frostline.write(path, [1, 1, 5, 9], addresses, writes=[False, True, False, True], threads=[7, 7, 8, 7])
    table = pyarrow.table(trace)
    assert table.column("clock").to_pylist() == [1, 1, 5, 9]
    assert table.column("kind").to_pylist() == [0, 1, 0, 1]
    assert table.column("stream").to_pylist() == [0, 0, 1, 0]
    pages = table.column("page").to_pylist()
    assert pages[0] == pages[2] and pages[1] == pages[0] + 1 and pages[3] not in pages[:3]
    assert trace.header["name"] == "own" and trace.info(progress=False)["finished"]
    # Several pieces, from a column of pandas.
    rows = (1 << 20) + 5
    frame = pandas.DataFrame({"time": numpy.arange(rows), "address": (numpy.arange(rows) % 512) * 4096})
    long = frostline.write(path, frame["time"], frame["address"], clock="instructions")
    assert long.info(progress=False)["records"] == rows
    assert frostline.sim(long, "first-touch", "1:1", progress=False).report["accesses"] > 0


@pytest.mark.parametrize(
    ("times", "addresses", "error", "part"),
    [
        ([3, 2], [0, 0], ValueError, "hint: sort"),
        ([0.5, 1.0], [0, 0], TypeError, "whole numbers"),
        ([float("nan")], [0], TypeError, "whole numbers"),
        ([0, 1], [0], ValueError, "different lengths"),
        ([0], [-1], ValueError, "beyond 0"),
        ([0], [1 << 64], TypeError, "whole numbers"),
        ([[0]], [[0]], TypeError, "dimensions"),
        (["now"], [0], TypeError, "whole numbers"),
    ],
)
def test_arrays_that_are_no_accesses_are_refused(
    tmp_path: Path, times: list[object], addresses: list[object], error: type[Exception], part: str
) -> None:
    path = tmp_path / "bad.flt"
    with pytest.raises(error, match=part):
        frostline.write(path, times, addresses)
    assert not path.exists()


def test_a_profile_says_how_much_memory_serves_what(zipf: frostline.Trace) -> None:
    profile = zipf.profile(progress=False)
    assert profile["left_out"] > 0 and profile["pages"] > 0
    misses = [point["misses"] for point in profile["miss_curve"]]
    assert misses == sorted(misses, reverse=True)
    with pytest.raises(frostline.UsageError, match="nothing behind"):
        zipf.profile(skip=1 << 40, progress=False)


def test_a_program_is_recorded(tmp_path: Path) -> None:
    trace = frostline.record(["/bin/true"], tmp_path / "true.flt")
    assert trace.info(progress=False)["records"] > 0
    with pytest.raises(frostline.FrostlineError, match="no-such-program"):
        frostline.record(["/no-such-program"], tmp_path / "none.flt")


def test_a_trace_that_is_deleted_meanwhile_is_an_error_and_no_crash(tmp_path: Path) -> None:
    path = tmp_path / "short.flt"
    program = Path(sys.executable).with_name("frostline")
    subprocess.run([program, "trace", "synth", ZIPF, "-o", path], check=True, capture_output=True)
    trace = frostline.open(path)
    assert trace.info(progress=False)["records"] > 0
    path.unlink()
    with pytest.raises(frostline.FrostlineError):
        trace.info(progress=False)


def test_the_programs_come_with_it() -> None:
    program = Path(sys.executable).with_name("frostline")
    version = subprocess.run([program, "--version"], check=True, capture_output=True, text=True)
    assert version.stdout.split() == ["frostline", frostline.__version__]
    assert (program.parents[1] / "lib" / "libfrostline_agent.so").exists()


def test_ctrl_c_ends_a_replay_soon() -> None:
    long = "synth:zipf:size=256MiB:accesses=2G"
    script = f"""
import frostline, time
print("ready", flush=True)
try:
    frostline.compare({long!r}, "memtis", "1:8", progress=False)
except KeyboardInterrupt:
    print(time.time(), flush=True)
"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None and child.stdout.readline() == "ready\n"
        time.sleep(1.0)
        sent = time.time()
        os.kill(child.pid, signal.SIGINT)
        ended = float(child.stdout.readline())
        assert child.wait() == 0
    print(f"ended after {1000 * (ended - sent):.0f} ms")


def test_the_lock_is_free_meanwhile(zipf: frostline.Trace) -> None:
    turns = 0
    over = threading.Event()

    def count() -> None:
        nonlocal turns
        while not over.is_set():
            turns += 1
            time.sleep(0.001)

    counter = threading.Thread(target=count)
    counter.start()
    frostline.compare(zipf, "memtis", "1:8", progress=False)
    over.set()
    counter.join()
    assert turns > 5


def test_progress_is_told_and_what_it_raises_ends_the_work() -> None:
    from frostline import _native

    request = {
        "traces": ["synth:zipf:size=64MiB:accesses=200M"],
        "fast": ["1:8"],
        "seeds": 1,
        "bound": False,
        "series": False,
        "policies": "memtis",
        "machine": "dram-nvm",
        "seed": 1,
        "tlb": False,
        "scale": "scaled",
        "jobs": None,
    }
    told: list[tuple[str, int, int | None]] = []

    def tell(what: str, done: int, total: int | None) -> None:
        told.append((what, done, total))
        if len(told) == 3:
            raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        _native.compare(json.dumps(request), tell)
    assert len(told) == 3 and told[0][0]
