"""Where k-means fails: clusters of other sizes, densities and shapes; a tree and DBSCAN beside it.

K-means puts borders halfway between centers, so it splits what is large, thin or curved.
"""

import matplotlib.pyplot as plt
import numpy as np
from gallery import save, scatter
from sklearn.datasets import make_moons

from sparsecluster import DBSCAN, AgglomerativeClustering, KMeans

rng = np.random.default_rng(1)


def disk(center, radius, n):
    """Points spread evenly over a disk."""
    angle, distance = rng.uniform(0, 2 * np.pi, n), radius * np.sqrt(rng.uniform(size=n))
    return np.asarray(center) + distance[:, None] * np.c_[np.cos(angle), np.sin(angle)]


sizes = np.concatenate(
    [disk((0, 0), 3, 700), disk((4.6, 1.3), 0.6, 60), disk((4.6, -1.3), 0.6, 60)]
)
densities = np.concatenate(
    [disk((0, 0), 3, 180), disk((4.5, 1.2), 0.8, 250), disk((4.5, -1.2), 0.8, 250)]
)
shapes, _ = make_moons(500, noise=0.06, random_state=0)

CASES = [  # name, points, clusters, linkage, eps
    ("sizes", sizes, 3, "single", 0.45),
    ("densities", densities, 3, "ward", 0.5),
    ("shapes", shapes, 2, "single", 0.17),
]
figure, panels = plt.subplots(3, 3, figsize=(10, 9))
for (name, points, k, linkage, eps), (first, second, third) in zip(CASES, panels, strict=True):
    scatter(first, points, KMeans(k, random_state=0).fit(points).labels_, f"{name}: k-means")
    tree = AgglomerativeClustering(k, linkage=linkage).fit(points)
    scatter(second, points, tree.labels_, f"{name}: {linkage} linkage")
    density = DBSCAN(eps=eps, min_samples=5, metric="euclidean").fit(points)
    scatter(third, points, density.labels_, f"{name}: DBSCAN, eps={eps}")
save(figure, __file__)
