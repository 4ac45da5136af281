"""Trains boosted trees on click logs of the shape of Criteo's: 13 counts and 26 categories."""

import sys

import numpy
import xgboost

COUNTS, CATEGORIES, PART = 13, 26, 20_000


class Parts(xgboost.DataIter):
    """The rows in parts, made one after the other: the whole is never there but binned."""

    def __init__(self, rows):
        super().__init__()
        self.rows = rows
        self.at = 0

    def reset(self):
        self.at = 0

    def next(self, give):
        if self.at >= self.rows:
            return 0
        random = numpy.random.default_rng(self.at + 1)
        some = min(PART, self.rows - self.at)
        counts = numpy.floor(numpy.exp(1.5 * random.standard_normal((some, COUNTS))))
        categories = numpy.minimum(random.zipf(1.5, (some, CATEGORIES)), 10_000)
        values = numpy.hstack([counts, categories]).astype(numpy.float32)
        score = numpy.log1p(values[:, ::3]).sum(axis=1) + 2 * random.standard_normal(some)
        give(data=values, label=(score > 17).astype(numpy.float32))
        self.at += some
        return 1


rows, rounds, loaded = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
matrix = xgboost.QuantileDMatrix(Parts(rows), max_bin=256, nthread=1)
open(loaded, "w").close()
settings = dict(tree_method="hist", max_depth=6, max_bin=256, nthread=1, objective="binary:logistic")
xgboost.train(settings, matrix, num_boost_round=rounds)
