# %% [markdown]
# # Write and tune a policy
#
# A policy is a class: it is told of samples, and proposes moves. This one counts samples, halves the counts now and then, and
# keeps the pages with the highest counts fast.

# %%
import numpy

import frostline


class Counting(frostline.PlacementPolicy):
    """Pages with the most samples are fast; counts are halved again and again."""

    needs = frostline.Needs(load_sample_period=200)

    def __init__(self, offer: frostline.Offer, halve_after: int = 20_000) -> None:
        super().__init__(offer)
        self.interval_ns = max(1, int(50_000_000 / offer.scale))
        self.halve_after = halve_after
        self.counts = numpy.zeros(1 << 16)
        self.samples = 0

    def observe(self, now_ns: int, samples: numpy.ndarray, view: frostline.View) -> None:
        numpy.add.at(self.counts, samples["page"], 1.0)
        self.samples += len(samples)
        if self.samples >= self.halve_after:
            self.counts /= 2
            self.samples = 0

    def decide(self, now_ns: int, view: frostline.View, plan: frostline.Plan) -> None:
        tiers = view.tier_of_pages()
        counts = self.counts[: len(tiers)]
        slow = numpy.flatnonzero((tiers == 1) & (counts > 0))
        slow = slow[numpy.argsort(-counts[slow], kind="stable")]
        fast = numpy.flatnonzero(tiers == 0)
        fast = fast[numpy.argsort(counts[fast], kind="stable")]
        room = view.free(0)
        plan.promote(slow[:room])
        rest = slow[room:][: len(fast)]
        # A move has to pay: twice as many samples as who leaves, and one.
        pays = counts[rest] > 2 * counts[fast[: len(rest)]] + 1
        plan.exchange(rest[pays], fast[: len(rest)][pays])


# %% [markdown]
# Beside policies of publications, on a program whose hot pages change:

# %%
trace = frostline.synth("shift:size=32MiB:accesses=4M")
print(frostline.compare(trace, [Counting, "memtis", "hybridtier", "first-touch"], "1:4"))

# %% [markdown]
# What makes a policy has a name of its own, so that parameters can be compared:

# %%
makes = {f"halve-{after}": lambda offer, after=after: Counting(offer, after) for after in (1_000, 5_000, 20_000)}
runs = frostline.compare(trace, makes, "1:4")
best = min(runs, key=lambda run: run.slowdown)
print(runs)
print(f"the best: {best.policy}")

# %% [markdown]
# What the best one does over time:

# %%
frostline.sim(trace, {best.policy: makes[best.policy]}, "1:4").plot()
