"""Policies and machines that can be named."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from . import _native


@dataclass(frozen=True)
class Parameter:
    """Parameter of a policy.

    Attributes
    ----------
    name
        As in ``policy:name=value``.
    default
        As a user would write it.
    scaled
        Whether the default is divided by how much larger the programs are that it was published for.
    unit
        Of the value, where it has none of its own.
    about
        What it does.
    """

    name: str
    default: str
    scaled: bool
    unit: str
    about: str


@dataclass(frozen=True)
class Policy:
    """A placement policy.

    Attributes
    ----------
    name
        As in descriptions of policies.
    group
        ``principal``, ``variants``, ``baselines`` or ``offline``.
    summary
        What it does, in a line.
    citation
        Where it comes from.
    params
        Its parameters.
    """

    name: str
    group: str
    summary: str
    citation: str
    params: tuple[Parameter, ...]

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Machine:
    """A modelled machine.

    Attributes
    ----------
    name
        Preset or file, with the parameters that were changed.
    description
        Everything that is modelled, units in the names of values.
    """

    name: str
    description: dict[str, Any]

    def __str__(self) -> str:
        return self.name


def policies() -> list[Policy]:
    """All policies, with their parameters and defaults."""
    listed = json.loads(_native.policies())
    return [
        Policy(**{**policy, "params": tuple(Parameter(**param) for param in policy["params"])}) for policy in listed
    ]


def machines() -> dict[str, str]:
    """Names of the machines that are known, and what they are."""
    return dict(_native.machines())


def machine(name: str) -> Machine:
    """A machine with all that is modelled of it.

    Parameters
    ----------
    name
        A preset or a TOML file, with parameters: ``dram-cxl:tiers.cxl.read_ns=250``.

    Raises
    ------
    UsageError
        For one that is not known or not possible.
    """
    description = json.loads(_native.machine(name))
    return Machine(description["name"], description)
