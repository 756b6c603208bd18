"""The Simpsons: a tree of categories by Hamming distance, and one of a matrix of distances."""

import matplotlib.pyplot as plt
import numpy as np
from gallery import save

from sparsecluster import AgglomerativeClustering, pairwise

# One change of dress, earrings and parting makes Selma of Patty; Marge needs five.
SISTERS = {
    #         dress    earrings  parting   height   smokes  weight
    "Patty": ["pink", "triangles", "left", "medium", "yes", "heavy"],
    "Selma": ["blue", "circles", "right", "medium", "yes", "heavy"],
    "Marge": ["green", "none", "right", "tall", "no", "slim"],
}
names, looks = list(SISTERS), np.array(list(SISTERS.values()))
changes = pairwise(looks, metric="hamming", count=True)
assert changes[0, 1] == 3
assert changes[1, 2] == 5
sisters = AgglomerativeClustering(
    2, linkage="average", metric="hamming", metric_options={"count": True}
).fit(looks)

DISTANCES = [
    [0, 8, 8, 7, 7],
    [8, 0, 2, 4, 4],
    [8, 2, 0, 3, 3],
    [7, 4, 3, 0, 1],
    [7, 4, 3, 1, 0],
]
five = AgglomerativeClustering(3, linkage="single", metric="precomputed").fit(DISTANCES)

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4))
sisters.plot(names=names, ax=left)
left.set_title("three sisters, average changes of looks", fontsize=10)
left.set_ylabel("changes")
five.plot(names=["1", "2", "3", "4", "5"], ax=right)
right.set_title("five characters, single linkage of a 5 × 5 matrix", fontsize=10)
right.set_ylabel("distance")
save(figure, __file__)
