"""Varying densities: no single radius of DBSCAN finds a dense and a sparse group at once."""

import matplotlib.pyplot as plt
import numpy as np
from gallery import save, scatter

from sparsecluster import DBSCAN

rng = np.random.default_rng(0)
# Two dense groups close to each other, and a sparse one whose points are farther apart than these.
points = np.concatenate(
    [
        rng.normal((0, 0), 0.12, size=(150, 2)),
        rng.normal((1.1, 0), 0.12, size=(150, 2)),
        rng.normal((5, 0.5), 1.0, size=(120, 2)),
    ]
)

figure, panels = plt.subplots(1, 3, figsize=(12, 3.6))
truth = np.repeat([0, 1, 2], [150, 150, 120])
scatter(panels[0], points, truth, "three groups")
for axes, eps in zip(panels[1:], (0.7, 0.2), strict=True):
    labels = DBSCAN(eps=eps, min_samples=4, metric="euclidean").fit(points).labels_
    found, noise = labels.max() + 1, np.mean(labels < 0)
    scatter(axes, points, labels, f"eps={eps}: {found} clusters, {noise:.0%} noise")
save(figure, __file__)
