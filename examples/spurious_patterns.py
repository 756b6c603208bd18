"""Patterns that are not there: a tree has clusters wherever it is cut, also a tree of noise.

What tells real groups is the gap between the heights of merges, which noise does not have.
"""

import matplotlib.pyplot as plt
import numpy as np
from gallery import save, scatter

from sparsecluster import AgglomerativeClustering

rng = np.random.default_rng(3)
noise = rng.uniform(size=(90, 2))
centers = np.array([[0.15, 0.2], [0.8, 0.3], [0.45, 0.85]])
groups = np.repeat(centers, 30, axis=0) + rng.normal(scale=0.05, size=(90, 2))

figure, panels = plt.subplots(2, 2, figsize=(9.5, 7), width_ratios=[1, 1.8])
for (points, name), (left, right) in zip(
    ((noise, "uniform noise"), (groups, "three groups")), panels, strict=True
):
    model = AgglomerativeClustering(3, linkage="ward").fit(points)
    heights = model.linkage_[:, 2]
    scatter(left, points, model.labels_, name)
    model.plot(max_leaves=None, ax=right)
    right.set_xticks([])
    right.axhspan(heights[-3], heights[-2], color="0.93", zorder=0)
    times = heights[-2] / heights[-3]
    right.set_title(
        f"the first merge of these clusters is {times:.1f} times as high as the last within",
        fontsize=10,
    )
save(figure, __file__)
