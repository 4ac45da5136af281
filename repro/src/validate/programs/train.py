"""Training of boosted trees on click logs of the shape of Criteo's: 13 counts and 26 categories."""

import gc
import os
import sys

import numpy
import xgboost

COUNTS, CATEGORIES, PART = 13, 26, 20_000


def parts(rows):
    """Values and labels, some rows at a time. Low numbers are popular."""
    random = numpy.random.default_rng(1)
    for at in range(0, rows, PART):
        some = min(PART, rows - at)
        counts = numpy.exp(1.5 * random.standard_normal((some, COUNTS), dtype=numpy.float32))
        uniform = 1 - random.random((some, CATEGORIES), dtype=numpy.float32)
        categories = numpy.minimum(uniform**-2, 10_000)
        values = numpy.floor(numpy.hstack([counts, categories]))
        score = numpy.log1p(values[:, ::3]).sum(axis=1) + 2 * random.standard_normal(some)
        yield values, (score > 17).astype(numpy.float32)


class Parts(xgboost.DataIter):
    """The rows as XGBoost asks for them: several times, part by part."""

    def __init__(self, rows):
        super().__init__()
        self.parts = list(parts(rows))
        self.next_part = 0

    def reset(self):
        self.next_part = 0

    def next(self, give):
        if self.next_part == len(self.parts):
            return 0
        values, labels = self.parts[self.next_part]
        give(data=values, label=labels)
        self.next_part += 1
        return 1


rows, rounds, loaded = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
source = Parts(rows)
matrix = xgboost.QuantileDMatrix(source, max_bin=256, nthread=1)
source.parts.clear()
# Neither the interpreter's looks at its own objects nor its end belong to the training.
gc.disable()
open(loaded, "w").close()
settings = dict(tree_method="hist", max_depth=6, max_bin=256, nthread=1, objective="binary:logistic")
xgboost.train(settings, matrix, num_boost_round=rounds)
os._exit(0)
