# Orders of a year in a data frame: totals of a day, recent days first. Each line read asks for so many totals.
import sys

import numpy
import pandas

DAYS = 365
RECENT = 12.0

rows = int(sys.argv[1])
rng = numpy.random.default_rng(1)
frame = pandas.DataFrame({
    "customer": rng.integers(0, 5000, rows),
    "article": rng.integers(0, 300, rows),
    "price": rng.integers(100, 9999, rows) / 100,
    "discount": rng.integers(0, 30, rows) / 100,
    "pieces": rng.integers(1, 9, rows),
    "paid": rng.integers(0, 2, rows),
})
day = rows // DAYS
print("ready", flush=True)
for line in sys.stdin:
    for _ in range(int(line)):
        ago = int(rng.exponential(RECENT)) % DAYS
        orders = frame.iloc[rows - (ago + 1) * day:rows - ago * day]
        value = orders["price"] * orders["pieces"] * (1 - orders["discount"])
        value.groupby(orders["article"]).sum()
    print("done", flush=True)
