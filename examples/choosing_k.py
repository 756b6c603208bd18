"""How many clusters: cost, silhouette and stability against K, and what `choose_k` makes of them.

Five groups of points, two of them close together: the silhouettes of four and five clusters are
near each other.
"""

import matplotlib.pyplot as plt
import numpy as np
from gallery import save, scatter

from sparsecluster import choose_k

rng = np.random.default_rng(0)
centers = ((0, 0), (4, 0.5), (2, 3.5), (6.5, 3.5), (7.7, 4.6))
points = np.concatenate([rng.normal(center, 0.45, size=(120, 2)) for center in centers])

choice = choose_k(points, range(2, 13), random_state=0)
figure = plt.figure(figsize=(11, 5.5), layout="constrained")
left, right = figure.subfigures(1, 2)
choice.plot(left.subplots(2, 1, sharex=True))
scatter(right.subplots(), points, choice.labels, f"the choice: {choice.k} clusters")
save(figure, __file__)
