# %% [markdown]
# # How much fast memory does my program need?
#
# A program is recorded, and its accesses are replayed with less and less fast memory. Run this file as it is, or cell by
# cell in an editor that knows `# %%`.

# %%
import frostline

# In place of a program of yours: `trace = frostline.record(["redis-server", ...], "redis.flt")`
trace = frostline.synth("ycsb-b:size=32MiB:accesses=2M")
trace

# %% [markdown]
# What is touched, and how often? A cache that keeps what was used last would need so much memory to serve so many of the
# accesses:

# %%
profile = trace.profile()
for row in profile["memory"]:
    size = "more than there is" if row["bytes"] is None else f"{row['bytes'] / 2**20:.1f} MiB"
    print(f"{row['served']:.0%} of the accesses: {size}")

# %% [markdown]
# That is no slowdown yet. How much slower does the program become on a machine with CXL memory, if the pages that are
# touched most lie in DRAM as far as a policy finds out?

# %%
advice = frostline.advise(trace, [0.05, 0.1, 0.2], machine="dram-cxl")
print(advice)

# %% [markdown]
# Each answer has an interval, by how the program varies over time. The curve says what a little more or less memory
# changes:

# %%
advice.plot()

# %% [markdown]
# Is the policy worth it? Beside it, memory that stays where it was first, and the bound that no policy can beat:

# %%
runs = frostline.compare(trace, ["frost", "first-touch"], ["1:8", "1:2", "1:1"], machine="dram-cxl", bound=True)
print(runs)
