"""The command ``frostline-sweep``: a sweep that a file describes."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from . import _native
from ._sweep import sweep

EXAMPLE = """\
A file such as:
  traces = ["redis.flt", "synth:zipf:size=1GiB:accesses=20M"]
  policies = "all"
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
    parser.add_argument("-j", "--jobs", type=int, help="replays at the same time on this machine [default: one per core]")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write the table there")
    parser.add_argument("-n", "--dry-run", action="store_true", help="say how many replays are to be made, and make none")
    given = parser.parse_args(words)
    try:
        asked = described(given.file)
        frame = sweep(
            **asked, scheduler=given.scheduler, jobs=given.jobs, progress=None, dry_run=given.dry_run
        )
    except (_native.FrostlineError, OSError, TypeError, ValueError) as error:
        print(f"frostline-sweep: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("frostline-sweep: interrupted; what was made is kept", file=sys.stderr)
        return 130
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
            index=["trace", "machine", "fast"], columns="policy", values="slowdown_vs_all_fast", observed=True
        )
        print(shown.round(3).to_string())
    return 1 if len(failed) else 0
