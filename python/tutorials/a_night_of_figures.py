# %% [markdown]
# # A night of figures, on a cluster
#
# A grid of replays is made once, by whoever is there: the cores of this machine, or a cluster of Dask.

# %%
import tempfile

import frostline

traces = ["synth:zipf:size=16MiB:accesses=500K", "synth:btree:size=16MiB:accesses=500K"]
grid = {"policies": "memtis,hybridtier,first-touch", "fast": ["1:2", "1:8"], "machines": ["dram-cxl", "dram-nvm"], "seeds": 2}

# %% [markdown]
# With a folder for the results, what is there is not made again. An interrupted sweep goes on; a larger one makes what is new.

# %%
results = tempfile.mkdtemp()
frame = frostline.sweep(traces, results=results, **grid)
again = frostline.sweep(traces, results=results, **grid)
assert frame.equals(again)
print(len(frame), "replays")

# %% [markdown]
# On a cluster, name its scheduler: `frostline.sweep(traces, results=results, scheduler="tcp://head:8786", **grid)`. The
# table is the same, bit for bit.

# %%
means = frame.groupby(["machine", "fast", "policy"])["slowdown_vs_all_fast"].mean()
print(means.unstack().round(2))
