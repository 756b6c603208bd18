"""The k-distance plot: sorted distances to the k-th neighbor show where noise begins.

DBSCAN's radius is the distance before the jump, and k its number of neighbors.
"""

import matplotlib.pyplot as plt
import numpy as np
from gallery import save, scatter

from sparsecluster import DBSCAN, k_distances, suggest_eps

K = 4
rng = np.random.default_rng(0)
groups = [rng.normal(center, 0.25, size=(120, 2)) for center in ((0, 0), (3, 0.5), (1.5, 2.5))]
points = np.concatenate([*groups, rng.uniform((-1.5, -1.5), (4.5, 4), size=(45, 2))])

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4))
eps = suggest_eps(k_distances(points, K, metric="euclidean"), plot=left)
labels = DBSCAN(eps=eps, min_samples=K + 1, metric="euclidean").fit(points).labels_
scatter(right, points, labels, f"DBSCAN with that eps: {labels.max() + 1} clusters and noise")
save(figure, __file__)
