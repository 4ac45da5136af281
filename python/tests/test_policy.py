"""Policies that are written in Python."""

from __future__ import annotations

import time
from typing import Any

import numpy
import pytest

import frostline

HOT = "synth:hotcold:size=16MiB:accesses=2M"


class Recent(frostline.PlacementPolicy):
    """Least recently used: a sampled page comes to fast memory, one not sampled for long makes room."""

    needs = frostline.Needs(load_sample_period=200)

    def __init__(self, offer: frostline.Offer) -> None:
        super().__init__(offer)
        self.interval_ns = max(1, int(10_000_000 / offer.scale))
        self.last = numpy.zeros(0, numpy.int64)
        self.slow: list[numpy.typing.NDArray[numpy.uint32]] = []
        self.samples = 0
        self.batches = 0
        self.spent_ns = 0

    def observe(self, now_ns: int, samples: numpy.typing.NDArray[numpy.void], view: frostline.View) -> None:
        began = time.perf_counter_ns()
        samples = samples[samples["tier"] != frostline.NOWHERE]
        pages = samples["page"]
        top = int(pages.max(initial=0)) + 1
        if top > len(self.last):
            self.last = numpy.concatenate([self.last, numpy.zeros(top - len(self.last), numpy.int64)])
        self.last[pages] = self.samples + numpy.arange(1, len(pages) + 1)
        self.samples += len(pages)
        self.slow.append(pages[samples["tier"] != 0])
        self.batches += 1
        self.spent_ns += time.perf_counter_ns() - began

    def decide(self, now_ns: int, view: frostline.View, plan: frostline.Plan) -> None:
        slow = numpy.concatenate([numpy.zeros(0, numpy.uint32), *self.slow])
        self.slow = []
        tiers = view.tier_of_pages()
        last = numpy.zeros(len(tiers), numpy.int64)
        last[: len(self.last)] = self.last[: len(tiers)]
        fast = numpy.flatnonzero(tiers == 0)
        fast = fast[numpy.argsort(last[fast], kind="stable")]
        room = view.free(0)
        plan.promote(slow[:room])
        rest = slow[room : room + len(fast)]
        plan.exchange(rest, fast[: len(rest)])


def run(policies: Any, **how: Any) -> frostline.Runs:
    return frostline.compare(HOT, policies, "1:4", progress=False, **how)


def test_a_policy_in_python_moves_what_is_hot() -> None:
    own, still = run([Recent, "first-touch"])
    assert (own.policy, still.policy) == ("Recent", "first-touch")
    assert own.report["promoted_bytes"] > 0
    assert own.fast_hit_ratio > still.fast_hit_ratio + 0.05, (own, still)
    assert own.report["counters"]["engine.anomalies"] == 0


TRACES = [
    HOT,
    "synth:zipf:size=16MiB:accesses=1M",
    "synth:shift:size=16MiB:accesses=1M",
    "synth:scan:size=16MiB:accesses=1M",
    "synth:btree:size=16MiB:accesses=1M",
]


def test_it_decides_as_the_same_policy_in_rust_does() -> None:
    for trace in TRACES:
        python, rust = frostline.compare(trace, [Recent, "lru"], "1:4", progress=False)
        assert rust.report["promoted_bytes"] > 0
        own = ("policy", "policy_config", "metadata_bytes", "counters", "host")
        reports = [{name: value for name, value in run.report.items() if name not in own} for run in (python, rust)]
        assert reports[0] == reports[1], trace
        engines = [
            {name: value for name, value in run.report["counters"].items() if name.startswith("engine.")}
            for run in (python, rust)
        ]
        assert engines[0] == engines[1], trace


def test_the_same_seed_decides_the_same() -> None:
    digests = [run(Recent)[0].report["counters"]["policy.decisions_digest"] for _ in range(2)]
    assert digests[0] == digests[1] != 0


def test_parameters_are_what_makes_it() -> None:
    def once(offer: frostline.Offer) -> Recent:
        made = Recent(offer)
        made.interval_ns = 1 << 60
        return made

    often, never_again = run([{"often": Recent, "never-again": once}])
    assert (often.policy, never_again.policy) == ("often", "never-again")
    assert often.report["promoted_bytes"] > never_again.report["promoted_bytes"] == 0
    # A name that is known otherwise is the class's.
    assert "policy.decisions_digest" in run({"lru": Recent})[0].report["counters"]
    with pytest.raises(frostline.UsageError, match="no name of a policy"):
        run({"a:b": Recent})


class Moody(Recent):
    """Decides by the time of day."""

    def decide(self, now_ns: int, view: frostline.View, plan: frostline.Plan) -> None:
        plan.promote([time.perf_counter_ns() % 100])


def test_who_decides_otherwise_the_second_time_is_named() -> None:
    assert len(run([Recent, "first-touch"], verify=True)) == 2
    with pytest.raises(frostline.FrostlineError, match="Moody decides otherwise.*1:4"):
        run(["first-touch", Moody, Recent], verify=True)


class Raises(Recent):
    def decide(self, now_ns: int, view: frostline.View, plan: frostline.Plan) -> None:
        if now_ns > 1_000_000:
            raise ZeroDivisionError("in a policy")


def test_what_it_raises_is_raised_with_its_traceback() -> None:
    with pytest.raises(ZeroDivisionError, match="in a policy") as raised:
        run(Raises)
    assert raised.traceback[-1].name == "decide"


class Wrong(Recent):
    def __init__(self, offer: frostline.Offer) -> None:
        raise LookupError("no such parameter")


class Confused(Recent):
    def decide(self, now_ns: int, view: frostline.View, plan: frostline.Plan) -> None:
        plan.promote([0.5])


class Nowhere(Recent):
    def decide(self, now_ns: int, view: frostline.View, plan: frostline.Plan) -> None:
        plan.migrate([1 << 20, 0], 0)
        plan.migrate([0], 7)


@pytest.mark.parametrize(("policy", "error"), [(Wrong, LookupError), (Confused, TypeError), (Nowhere, ValueError)])
def test_nonsense_is_an_error(policy: type[frostline.PlacementPolicy], error: type[Exception]) -> None:
    with pytest.raises(error):
        run(policy)


def test_a_batch_costs_little() -> None:
    made: list[Recent] = []

    def note(offer: frostline.Offer) -> Recent:
        made.append(Recent(offer))
        return made[-1]

    run({"noted": note})
    (policy,) = made
    assert policy.batches > 20 and policy.samples > policy.batches
    print(
        f"{policy.samples} samples in {policy.batches} batches, "
        f"{policy.spent_ns / policy.batches / 1000:.1f} us a batch in the policy"
    )
