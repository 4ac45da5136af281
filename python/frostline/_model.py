"""Requests as the native module takes them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from ._lists import Machine, Policy
from ._traces import Trace

TraceLike = Trace | str | os.PathLike[str]
PolicyLike = Policy | str


def trace_name(trace: TraceLike) -> str:
    """Name of a trace that can be opened."""
    return trace.name if isinstance(trace, Trace) else os.fspath(trace)


def listed(policies: PolicyLike | Iterable[PolicyLike]) -> str:
    """Policies in one text."""
    several = [policies] if isinstance(policies, Policy | str) else policies
    return ",".join(str(policy) for policy in several)


def model(
    policies: PolicyLike | Iterable[PolicyLike],
    machine: Machine | str,
    seed: int,
    tlb: bool,
    scale: str,
    jobs: int | None,
) -> dict[str, Any]:
    """Machine and policies of a request."""
    return {
        "policies": listed(policies),
        "machine": str(machine),
        "seed": seed,
        "tlb": tlb,
        "scale": scale,
        "jobs": jobs,
    }
