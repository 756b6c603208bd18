"""Synthetic sparse sets whose number of clusters is known: of several kinds, fixed beforehand.

They differ in metric, number and sizes of clusters, overlap, length of rows and noise. None of the
five was made for, or changed after, what a rule for the number of clusters says. `drawn` gives any
number of others, whose sizes, vocabularies and lengths are drawn as well; the rule was chosen on
the first 120 of them, and later ones tell how good it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp


@dataclass(frozen=True)
class KnownClusters:
    """Rows, the cluster that each was drawn from, and how they are to be compared."""

    name: str
    X: sp.csr_array
    classes: np.ndarray
    metric: str

    @property
    def k(self) -> int:
        return int(self.classes.max()) + 1


def topics(seed: int = 1) -> KnownClusters:
    """8 topics of 400 documents each: tf-idf, a third of the words of the common language."""
    rng = np.random.default_rng(seed)
    classes = np.repeat(np.arange(8), 400)
    counts = documents(rng, classes, n_words=4000, own_words=300, common=0.35, length=80)
    return KnownClusters("8 even topics", tfidf(counts), classes, "cosine")


def uneven_topics(seed: int = 2) -> KnownClusters:
    """15 topics of 60 to 900 documents: tf-idf, half of the words common."""
    rng = np.random.default_rng(seed)
    sizes = np.geomspace(900, 60, 15).astype(int)
    classes = np.repeat(np.arange(15), sizes)
    counts = documents(rng, classes, n_words=6000, own_words=250, common=0.5, length=100)
    return KnownClusters("15 uneven topics", tfidf(counts), classes, "cosine")


def baskets(seed: int = 3) -> KnownClusters:
    """25 kinds of customers who buy some of 20 goods of their kind, and some of all 1,500."""
    rng = np.random.default_rng(seed)
    classes = rng.permutation(np.repeat(np.arange(25), 160))
    chance = np.full((25, 1500), 0.003)
    for one in range(25):
        chance[one, rng.choice(1500, 20, replace=False)] = 0.4
    bought = rng.random((len(classes), 1500)) < chance[classes]
    return KnownClusters("25 kinds of baskets", sp.csr_array(bought.astype(float)), classes,
                         "euclidean")  # fmt: skip


def cells(seed: int = 4) -> KnownClusters:
    """5 types of cells of very different frequency: Poisson counts of genes, log(1 + count)."""
    rng = np.random.default_rng(seed)
    classes = np.repeat(np.arange(5), (1500, 800, 400, 200, 100))
    base = rng.gamma(0.3, 1.0, size=2000)
    rates = np.tile(base, (5, 1))
    for one in range(5):
        marked = rng.choice(2000, 60, replace=False)
        rates[one, marked] += rng.gamma(2.0, 1.0, size=60)
    depth = rng.lognormal(0.0, 0.25, size=len(classes))
    counts = rng.poisson(0.5 * rates[classes] * depth[:, None])
    return KnownClusters("5 types of cells", sp.csr_array(np.log1p(counts)), classes, "euclidean")


def overlapping(seed: int = 5) -> KnownClusters:
    """12 topics in 4 areas: topics of an area share a third of their words, 3% of rows none."""
    rng = np.random.default_rng(seed)
    classes = np.repeat(np.arange(12), rng.integers(150, 450, size=12))
    counts = documents(rng, classes, n_words=5000, own_words=200, common=0.35, length=90,
                       areas=np.arange(12) // 3, of_area=0.2)  # fmt: skip
    stray = rng.random(len(classes)) < 0.03
    noise = documents(rng, np.zeros(len(classes), dtype=int), n_words=5000, own_words=200,
                      common=1.0, length=90)  # fmt: skip
    keep = sp.diags_array((~stray).astype(float))
    mixed = sp.csr_array(keep @ counts + sp.diags_array(stray.astype(float)) @ noise)
    return KnownClusters("12 topics in 4 areas, 3% noise", tfidf(mixed), classes, "cosine")


SETS: list[Callable[[], KnownClusters]] = [topics, uneven_topics, baskets, cells, overlapping]


# --- any number of others -------------------------------------------------------------------------

KINDS = ("baskets", "topics", "cells", "titles")
UNSEEN = 120  # the first of those that no rule was chosen with


def drawn(number: int) -> KnownClusters:
    """One of many: 3 to 24 clusters, the largest of them 1, 4, 10 or 15 times the smallest."""
    rng = np.random.default_rng(1000 + number)
    kind, k = KINDS[number % len(KINDS)], int(rng.integers(3, 25))
    uneven, n_rows = float(rng.choice([0, 4, 10, 15])), int(rng.integers(1200, 3000))
    shares = rng.dirichlet(np.full(k, 1e3)) if uneven == 0 else np.geomspace(uneven, 1, k)
    sizes = np.maximum((shares / shares.sum() * n_rows).astype(int), 25)
    classes = np.repeat(np.arange(k), sizes)
    X = {"baskets": drawn_baskets, "cells": drawn_cells}.get(kind, drawn_texts)(rng, classes, kind)
    there = np.diff(X.indptr) > 0
    name = f"{number}: {k} kinds of {kind}, {sizes.max() / sizes.min():.0f} to 1"
    metric = "euclidean" if kind in ("baskets", "cells") else "cosine"
    return KnownClusters(name, sp.csr_array(X[there]), classes[there], metric)


def drawn_baskets(rng: np.random.Generator, classes: np.ndarray, _kind: str) -> sp.csr_array:
    """Customers who buy some of the goods of their kind, and now and then any; kinds may share."""
    n_goods, own = int(rng.integers(600, 2000)), int(rng.integers(12, 30))
    often, seldom = float(rng.uniform(0.25, 0.5)), float(rng.uniform(0.001, 0.005))
    chance = np.full((int(classes.max()) + 1, n_goods), seldom)
    for one in chance:
        one[rng.choice(n_goods, own, replace=False)] = often
    return sp.csr_array((rng.random((len(classes), n_goods)) < chance[classes]).astype(float))


def drawn_cells(rng: np.random.Generator, classes: np.ndarray, _kind: str) -> sp.csr_array:
    """Counts of genes, of which some mark each type; log(1 + count)."""
    rates = np.tile(rng.gamma(0.3, 1.0, size=1000), (int(classes.max()) + 1, 1))
    marks = int(rng.integers(30, 80))
    for one in rates:
        one[rng.choice(1000, marks, replace=False)] += rng.gamma(2.0, 1.0, size=marks)
    depth = rng.lognormal(0, 0.25, size=len(classes))
    counts = rng.poisson(0.5 * rates[classes] * depth[:, None])
    return sp.csr_array(np.log1p(counts.astype(float)))


def drawn_texts(rng: np.random.Generator, classes: np.ndarray, kind: str) -> sp.csr_array:
    """Documents, or titles of a few words; half of the sets in areas that share words."""
    length = int(rng.integers(60, 120)) if kind == "topics" else int(rng.integers(12, 25))
    areas = np.arange(int(classes.max()) + 1) // 3 if rng.random() < 0.5 else None
    own_words, common = int(rng.integers(60, 250)), float(rng.uniform(0.2, 0.5))
    return tfidf(
        documents(rng, classes, n_words=4000, own_words=own_words, common=common, length=length,
                  areas=areas, of_area=0.0 if areas is None else 0.15)
    )  # fmt: skip


# --- words ----------------------------------------------------------------------------------------


def documents(
    rng: np.random.Generator,
    classes: np.ndarray,
    *,
    n_words: int,
    own_words: int,
    common: float,
    length: int,
    areas: np.ndarray | None = None,
    of_area: float = 0.0,
) -> sp.csr_array:
    """Counts of words: some of the common language, some of an area, the others of the topic."""
    n_topics = int(classes.max()) + 1
    lengths = rng.poisson(length * rng.lognormal(0, 0.4, size=len(classes))) + 5
    rows = np.repeat(np.arange(len(classes)), lengths)
    words = zipf_words(rng, len(rows), rng.permutation(n_words))
    kind = rng.random(len(rows))
    for topic in range(n_topics):
        own = (kind >= common + of_area) & (classes[rows] == topic)
        words[own] = zipf_words(rng, int(own.sum()), rng.choice(n_words, own_words, replace=False))
    for area in range(0 if areas is None else int(areas.max()) + 1):
        assert areas is not None
        shared = (kind >= common) & (kind < common + of_area) & (areas[classes[rows]] == area)
        some = rng.choice(n_words, own_words, replace=False)
        words[shared] = zipf_words(rng, int(shared.sum()), some)
    entries = (np.ones(len(rows)), (rows, words))
    return sp.csr_array(sp.coo_array(entries, shape=(len(classes), n_words)))


def zipf_words(rng: np.random.Generator, n: int, vocabulary: np.ndarray) -> np.ndarray:
    """Words of a vocabulary, the first ones most often."""
    chance = 1 / np.arange(1, len(vocabulary) + 1)
    ranks = np.searchsorted(np.cumsum(chance / chance.sum()), rng.random(n))
    return vocabulary[np.minimum(ranks, len(vocabulary) - 1)]


def tfidf(counts: sp.csr_array) -> sp.csr_array:
    """Unit rows of tf-idf."""
    from sklearn.feature_extraction.text import TfidfTransformer

    return sp.csr_array(TfidfTransformer(sublinear_tf=True).fit_transform(counts))
