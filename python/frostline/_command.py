"""The commands ``frostline-sweep``, a sweep that a file describes, and ``frostline-compare``, which knows policies in Python."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import _native
from ._runs import compare
from ._sweep import sweep

EXAMPLE = """\
A file such as:
  traces = ["redis.flt", "synth:zipf:size=1GiB:accesses=20M"]
  policies = ["all", "mypolicy:MyPolicy:half_life=3"]        # or a class of a module of yours
  fast = ["1:2", "1:8"]
  machines = ["dram-cxl", "dram-nvm"]
  seeds = 5
  results = "results"        # what is there is not made again"""

KEYS = {"traces", "policies", "fast", "machines", "seeds", "results", "scale", "tlb"}


def described(path: Path) -> dict[str, Any]:
    """What a file asks for, with paths as seen from it.

    Raises
    ------
    UsageError
        For a file that is no TOML, or has keys that are not known.
    """
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    try:
        asked: dict[str, Any] = tomllib.loads(path.read_text())
    except tomllib.TOMLDecodeError as error:
        raise _native.UsageError(f"{path}: {error}") from error
    unknown = sorted(set(asked) - KEYS)
    if unknown:
        raise _native.UsageError(f"{path}: unknown keys: {', '.join(unknown)}\nhint: known are {', '.join(sorted(KEYS))}")
    if "traces" not in asked:
        raise _native.UsageError(f"{path}: there are no traces\nhint: traces = [...]")
    return asked


def main(words: list[str] | None = None) -> int:
    """Makes the sweep; 0, or 1 where a replay has failed, or 2 for what cannot be asked."""
    parser = argparse.ArgumentParser(
        prog="frostline-sweep",
        description="Make every replay of a grid, once, on this machine or on a cluster of Dask.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", type=Path, help="what to make, in TOML")
    parser.add_argument("--scheduler", metavar="ADDRESS", help="of a cluster of Dask: tcp://HOST:PORT")
    parser.add_argument("--scatter", action="store_true", help="send trace files to the workers of a cluster")
    parser.add_argument("-j", "--jobs", type=int, help="replays at the same time on this machine [default: one per core]")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write the table there")
    parser.add_argument("-n", "--dry-run", action="store_true", help="say how many replays are to be made, and make none")
    given = parser.parse_args(words)
    return _ended("frostline-sweep", lambda: _sweep(given))


def compare_main(words: list[str] | None = None) -> int:
    """Compares; 0, or 2 for what cannot be asked or done."""
    parser = argparse.ArgumentParser(
        prog="frostline-compare",
        description="Compare policies on traces, those that are written in Python among them.",
        epilog="Example:\n  frostline-compare program.flt --policies memtis,mypolicy:MyPolicy:half_life=3 --fast 1:2,1:8",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("traces", nargs="+", metavar="TRACE", help="file, address, or synth:NAME:key=value...")
    parser.add_argument("--policies", default="all", help="separated by commas; module:Class:key=value in Python [default: all]")
    parser.add_argument("--fast", default="1:2,1:8,1:16", help="sizes of fast memory, separated by commas [default: %(default)s]")
    parser.add_argument("--machine", default="dram-nvm", help="preset or TOML file [default: %(default)s]")
    parser.add_argument("--seed", type=int, default=1, help="of everything random [default: %(default)s]")
    parser.add_argument("--seeds", type=int, default=1, help="runs of each, with seeds from there on [default: %(default)s]")
    parser.add_argument("--tlb", choices=["on", "off"], default="on", help="model address translation [default: %(default)s]")
    parser.add_argument("--verify", action="store_true", help="run what is written in Python twice: it has to decide the same")
    parser.add_argument("-j", "--jobs", type=int, help="runs at the same time [default: one per core]")
    parser.add_argument("--json", action="store_true", help="print all numbers")
    given = parser.parse_args(words)
    return _ended("frostline-compare", lambda: _compare(given))


def _compare(given: argparse.Namespace) -> int:
    runs = compare(
        given.traces,
        given.policies,
        given.fast.split(","),
        machine=given.machine,
        seed=given.seed,
        seeds=given.seeds,
        tlb=given.tlb == "on",
        verify=given.verify,
        jobs=given.jobs,
    )
    print(json.dumps([run.report for run in runs]) if given.json else runs)
    return 0


def _ended(program: str, work: Callable[[], int]) -> int:
    """What work ends with, and its errors in a line or two. Modules are looked for where the user is."""
    sys.path.insert(0, "")
    try:
        return work()
    except (_native.FrostlineError, OSError, TypeError, ValueError) as error:
        print(f"{program}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"{program}: interrupted", file=sys.stderr)
        return 130


def _sweep(given: argparse.Namespace) -> int:
    asked = described(given.file)
    frame = sweep(
        **asked,
        scheduler=given.scheduler,
        scatter=given.scatter,
        jobs=given.jobs,
        progress=None,
        dry_run=given.dry_run,
    )
    if given.dry_run:
        print(f"{frame['modelled_seconds'].isna().sum()} of {len(frame)} replays are to be made")
        return 0
    failed = frame[frame["error"] != ""]
    for row in failed.to_dict("records"):
        print(f"{row['trace']}, {row['policy']}, {row['fast']}: {row['error']}", file=sys.stderr)
    if given.csv is not None:
        frame.to_csv(given.csv, index=False)
    else:
        shown = frame.pivot_table(
            index=["trace", "machine", "fast"], columns="policy", values="slowdown", observed=True
        )
        print(shown.round(3).to_string())
    return 1 if len(failed) else 0
