"""Traces, replays and advice of Frostline.

How much fast memory does a program need, so that it becomes no slower than is accepted, and which policy makes the
most of it? A trace of a program, recorded or generated, is replayed on a modelled machine.

>>> import frostline
>>> trace = frostline.synth("zipf:size=64MiB:accesses=2M")
>>> runs = frostline.compare(trace, policies="memtis,first-touch", fast="1:8")
>>> [run.policy for run in runs]
['memtis', 'first-touch']
"""

from ._advice import Advice, Answer, advise
from ._lists import Machine, Parameter, Policy, machine, machines, policies
from ._native import FrostlineError, UsageError, __version__
from ._policy import NOWHERE, Needs, Offer, PlacementPolicy, Plan, View
from ._runs import Bound, Run, Runs, bound, compare, sim
from ._sweep import sweep
from ._traces import Events, Trace, open, synth
from ._written import record, write

__all__ = [
    "Advice",
    "Answer",
    "Bound",
    "Events",
    "FrostlineError",
    "Machine",
    "NOWHERE",
    "Needs",
    "Offer",
    "Parameter",
    "PlacementPolicy",
    "Plan",
    "Policy",
    "Run",
    "Runs",
    "Trace",
    "UsageError",
    "View",
    "__version__",
    "advise",
    "bound",
    "compare",
    "machine",
    "machines",
    "open",
    "policies",
    "record",
    "sim",
    "sweep",
    "synth",
    "write",
]
