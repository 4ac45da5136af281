"""Policies in Python by their names: ``module:Class:key=value``."""

from __future__ import annotations

import ast
import hashlib
import importlib
import inspect
import re
from functools import lru_cache
from pathlib import Path
from typing import Any

from . import _native
from ._policy import Offer, PlacementPolicy, PolicyClass

_NAME = re.compile(r"([A-Za-z_][\w.]*):([A-Za-z_]\w*)((?::[A-Za-z_]\w*=[^:]*)*)")


def is_named(text: str) -> bool:
    """Whether a description of a policy names a class of a module."""
    return _NAME.fullmatch(text) is not None


def _value(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text


def _found(text: str) -> tuple[Any, dict[str, Any]]:
    match = _NAME.fullmatch(text)
    if match is None:
        raise _native.UsageError(f"no policy: {text}\nhint: module:Class:key=value")
    module, name, rest = match.groups()
    try:
        made: Any = getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        hint = "PYTHONPATH names folders with modules"
        raise _native.UsageError(f"{text}: {error}\nhint: {hint}") from error
    except AttributeError as error:
        raise _native.UsageError(f"{text}: {error}\nhint: module:Class:key=value") from error
    if not callable(made):
        raise _native.UsageError(f"{text}: {name} makes no policies\nhint: name a class")
    settings = (item.partition("=") for item in rest.split(":")[1:])
    return made, {key: _value(value) for key, _, value in settings}


def named(text: str) -> PolicyClass:
    """What makes a policy that is named.

    Raises
    ------
    UsageError
        Where there is no such module or class.
    """
    made, settings = _found(text)

    def make(offer: Offer) -> PlacementPolicy:
        policy: PlacementPolicy = made(offer, **settings)
        return policy

    return make


@lru_cache(maxsize=256)
def code_of(text: str) -> str:
    """SHA-256 of the file that a policy's class stands in; nothing for a policy that is not written in Python."""
    if not is_named(text):
        return ""
    made, _ = _found(text)
    file = inspect.getsourcefile(made)
    return "" if file is None else hashlib.sha256(Path(file).read_bytes()).hexdigest()
