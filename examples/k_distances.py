"""The k-distance plot: sorted distances to the k-th neighbor show where noise begins.

DBSCAN's radius is the distance before the jump, and k its number of neighbors.
"""

import matplotlib.pyplot as plt
import numpy as np
from gallery import save, scatter
from sklearn.cluster import DBSCAN

from sparsecluster import pairwise

K = 4
rng = np.random.default_rng(0)
groups = [rng.normal(center, 0.25, size=(120, 2)) for center in ((0, 0), (3, 0.5), (1.5, 2.5))]
points = np.concatenate([*groups, rng.uniform((-1.5, -1.5), (4.5, 4), size=(45, 2))])

distances = np.sort(np.sort(pairwise(points, metric="euclidean"), axis=1)[:, K])
# The jump: where the curve lies farthest below the line between its ends.
share = np.linspace(0, 1, len(distances))
line = distances[0] + share * (distances[-1] - distances[0])
jump = int(np.argmax(line - distances))
eps = distances[jump]

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4))
left.plot(distances, color="C0")
left.axhline(eps, color="0.6", linestyle="--", linewidth=1)
left.annotate(f"eps = {eps:.2f}", (0, eps), xytext=(0, 4), textcoords="offset points")
left.set_xlabel("points, sorted")
left.set_ylabel(f"distance to the {K}th neighbor")
labels = DBSCAN(eps=eps, min_samples=K, metric="euclidean").fit(points).labels_
scatter(right, points, labels, f"DBSCAN with that eps: {labels.max() + 1} clusters and noise")
save(figure, __file__)
