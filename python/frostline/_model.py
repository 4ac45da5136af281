"""Requests as the native module takes them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from . import _native
from ._lists import Machine, Policy
from ._policy import PlacementPolicy, PolicyClass, adapted
from ._traces import Trace

TraceLike = Trace | str | os.PathLike[str]
PolicyLike = Policy | str | type[PlacementPolicy] | Mapping[str, PolicyClass]


def trace_name(trace: TraceLike) -> str:
    """Name of a trace that can be opened."""
    return trace.name if isinstance(trace, Trace) else os.fspath(trace)


Classes = dict[str, Callable[[int, float, int], object]]


def listed(policies: PolicyLike | Iterable[PolicyLike]) -> tuple[str, Classes]:
    """Policies in one text, and what makes those that are written in Python."""
    several = [policies] if isinstance(policies, Policy | str | type | Mapping) else policies
    names: list[str] = []
    classes: Classes = {}
    for policy in several:
        if isinstance(policy, Policy | str):
            names.append(str(policy))
            continue
        made = policy if isinstance(policy, Mapping) else {policy.__name__: policy}
        for name, make in made.items():
            if not name.replace("-", "_").isidentifier():
                raise _native.UsageError(f"no name of a policy: {name!r}\nhint: take letters, digits, - and _")
            names.append(name)
            classes[name] = adapted(make)
    return ",".join(names), classes


def model(
    policies: str,
    machine: Machine | str,
    seed: int,
    tlb: bool,
    scale: str,
    jobs: int | None,
) -> dict[str, Any]:
    """Machine and policies of a request."""
    return {
        "policies": policies,
        "machine": str(machine),
        "seed": seed,
        "tlb": tlb,
        "scale": scale,
        "jobs": jobs,
    }
