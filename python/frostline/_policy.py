"""Policies that are written in Python."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import _native

if TYPE_CHECKING:
    import numpy
    import numpy.typing

    Pages = numpy.typing.NDArray[numpy.uint32]
    Tiers = numpy.typing.NDArray[numpy.uint8]

NOWHERE = 255
"""Tier of a page that is in none."""


@dataclass(frozen=True)
class Needs:
    """What a policy is told.

    Attributes
    ----------
    load_sample_period
        One in so many loads that missed the last cache is sampled; 0 for none.
    store_sample_period
        One in so many stores is sampled; 0 for none.
    """

    load_sample_period: int = 0
    store_sample_period: int = 0


@dataclass(frozen=True)
class Offer:
    """What a policy may know before it begins.

    Attributes
    ----------
    seed
        For everything random: a policy decides the same with the same seed.
    scale
        By what published intervals, in time and in samples, are to be divided for this program.
    fast_pages
        Size of fast memory in pages of 4 KiB.
    """

    seed: int
    scale: float
    fast_pages: int


class View:
    """Memory as a policy sees it. Tier 0 is the fastest."""

    def __init__(self, native: _native.View) -> None:
        self._native = native

    @property
    def tiers(self) -> int:
        """Number of tiers."""
        return self._native.tiers

    def used(self, tier: int) -> int:
        """Pages in a tier."""
        return self._native.used(tier)

    def free(self, tier: int) -> int:
        """Pages for which a tier has room."""
        return self._native.free(tier)

    def tier_of_pages(self) -> Tiers:
        """Tier of each page, by its id, `NOWHERE` for none; empty but in `PlacementPolicy.decide`."""
        import numpy

        return numpy.frombuffer(self._native.pages(), numpy.uint8)


class Plan:
    """What a policy proposes. The engine checks it: what cannot be is left out."""

    def __init__(self, native: _native.Plan) -> None:
        self._native = native

    def migrate(self, pages: Any, tier: int) -> None:
        """Have pages go to a tier, the first one first.

        Parameters
        ----------
        pages
            Ids, any array of whole numbers. One in a folio stands for all of it.
        tier
            Number of the tier.
        """
        self._native.migrate(_ids(pages), tier)

    def promote(self, pages: Any) -> None:
        """Have pages go to the fastest tier."""
        self.migrate(pages, 0)

    def demote(self, pages: Any) -> None:
        """Have pages go to the second tier."""
        self.migrate(pages, 1)

    def exchange(self, ones: Any, others: Any) -> None:
        """Have pages change places, each with the other one of the same index."""
        self._native.exchange(_ids(ones), _ids(others))


def _ids(pages: Any) -> bytes:
    import numpy

    ids = numpy.asarray(pages)
    if ids.size == 0:
        return b""
    if ids.dtype.kind not in "iu":
        raise TypeError(f"page ids are of {ids.dtype}, not whole numbers")
    return ids.astype(numpy.uint32, copy=False).tobytes()


class PlacementPolicy:
    """A policy, to be derived from. It is called in batches, never for an access.

    The same calls have to lead to the same proposals: what is random follows from the offer's seed.

    Parameters
    ----------
    offer
        What it may know before it begins.
    """

    needs = Needs()
    """What it is told."""

    base_pages = True
    """Whether memory is mapped by pages of 4 KiB only. Else a page in a folio of 2 MiB stands for all of it."""

    interval_ns = 10_000_000
    """Time from one decision to the next, where `decide` does not say another one (ns)."""

    def __init__(self, offer: Offer) -> None:
        self.offer = offer

    def observe(self, now_ns: int, samples: numpy.typing.NDArray[numpy.void], view: View) -> None:
        """Take in samples, oldest first.

        Parameters
        ----------
        now_ns
            Time since the beginning.
        samples
            With the fields ``page`` (id), ``tier`` (where it is, or `NOWHERE`) and ``store`` (0 for a load).
        view
            Memory, without the tiers of pages.
        """

    def decide(self, now_ns: int, view: View, plan: Plan) -> int | None:
        """Propose moves.

        Parameters
        ----------
        now_ns
            Time since the beginning.
        view
            Memory.
        plan
            Takes the proposals.

        Returns
        -------
        int or None
            When to decide next (ns); None: after `interval_ns`.
        """
        return None


PolicyClass = Callable[[Offer], PlacementPolicy]
"""A class, or whatever else makes a policy of an offer."""


class _Adapter:
    """A policy as the native module calls it."""

    def __init__(self, policy: PlacementPolicy) -> None:
        import numpy

        self._policy = policy
        self._frombuffer = numpy.frombuffer
        self._sample = numpy.dtype([("page", "u4"), ("tier", "u1"), ("store", "u1"), ("rest", "u2")])

    def needs(self) -> str:
        needs = self._policy.needs
        return json.dumps(
            {
                "load_sample_period": needs.load_sample_period,
                "store_sample_period": needs.store_sample_period,
                "base_pages": self._policy.base_pages,
            }
        )

    def observe(self, now_ns: int, samples: bytes, view: _native.View) -> None:
        self._policy.observe(now_ns, self._frombuffer(samples, self._sample), View(view))

    def decide(self, now_ns: int, view: _native.View, plan: _native.Plan) -> int:
        following = self._policy.decide(now_ns, View(view), Plan(plan))
        return now_ns + self._policy.interval_ns if following is None else following


def adapted(make: PolicyClass) -> Callable[[int, float, int], object]:
    """What makes adapters of policies."""
    return lambda seed, scale, fast_pages: _Adapter(make(Offer(seed, scale, fast_pages)))
