"""How many clusters: cost, silhouette and stability against K, and what `choose_k` makes of them.

Five groups of points, two of which touch: these count as one, and the silhouette and the stability
of five clusters are not far behind.
"""

import matplotlib.pyplot as plt
import numpy as np
from gallery import save, scatter

from sparsecluster import choose_k

rng = np.random.default_rng(0)
centers = ((0, 0), (4, 0.5), (2, 3.5), (6.5, 3.5), (7.7, 4.6))
points = np.concatenate([rng.normal(center, 0.45, size=(120, 2)) for center in centers])

choice = choose_k(points, range(2, 13), random_state=0)
figure, axes = plt.subplot_mosaic(
    [["cost", "points"], ["measures", "points"]], figsize=(12, 5.5), width_ratios=(1, 1.2)
)
choice.plot((axes["cost"], axes["measures"]))
scatter(axes["points"], points, choice.labels, f"the choice: {choice.k} clusters")
save(figure, __file__)
