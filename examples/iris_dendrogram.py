"""Iris: three species of flowers by the sizes of their leaves, merged by Ward's linkage.

Setosa stands apart. The other two overlap: the strip below the tree shows where it mixes them.
"""

import matplotlib.pyplot as plt
import numpy as np
from gallery import save
from sklearn.datasets import load_iris
from sklearn.metrics import adjusted_rand_score

from sparsecluster import AgglomerativeClustering

iris = load_iris()
model = AgglomerativeClustering(3, linkage="ward").fit(iris.data)
agreement = adjusted_rand_score(iris.target, model.labels_)

figure, (axes, strip) = plt.subplots(2, 1, figsize=(10, 5), height_ratios=[14, 1], sharex=True)
model.plot(max_leaves=None, ax=axes)
axes.tick_params(bottom=False, labelbottom=False)
order = model.leaf_order()
for kind, name in enumerate(iris.target_names):
    places = np.flatnonzero(iris.target[order] == kind)
    strip.bar(places, 1, width=1, color=f"C{kind + 4}", label=name)
strip.set_yticks([])
strip.tick_params(bottom=False, labelbottom=False)
strip.legend(ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.1), frameon=False)
axes.set_title(f"150 irises, Ward's linkage, three clusters (adjusted Rand index {agreement:.2f})")
save(figure, __file__)
