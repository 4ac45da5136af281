"""Requests as the native module takes them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from . import _native
from ._lists import Machine, Policy
from ._named import is_named, named
from ._policy import PlacementPolicy, PolicyClass, adapted
from ._remote import local
from ._traces import Trace

TraceLike = Trace | str | os.PathLike[str]
PolicyLike = Policy | str | type[PlacementPolicy] | Mapping[str, PolicyClass]


def trace_name(trace: TraceLike) -> str:
    """Name of a trace that can be opened."""
    return trace.name if isinstance(trace, Trace) else local(os.fspath(trace))


Classes = dict[str, Callable[[int, float, int], object]]


def listed(policies: PolicyLike | Iterable[PolicyLike]) -> tuple[str, Classes]:
    """Policies in one text, and what makes those that are written in Python."""
    is_one = isinstance(policies, Policy | str | type | Mapping)
    several = [cast("PolicyLike", policies)] if is_one else cast("Iterable[PolicyLike]", policies)
    names: list[str] = []
    classes: Classes = {}
    for policy in several:
        if isinstance(policy, Policy | str):
            for name in str(policy).split(","):
                names.append(name.strip())
                if is_named(names[-1]):
                    classes[names[-1]] = adapted(named(names[-1]))
            continue
        made: Mapping[str, PolicyClass] = {policy.__name__: policy} if isinstance(policy, type) else policy
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
