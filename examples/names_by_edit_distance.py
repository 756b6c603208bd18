"""First names by edit distance: forms of one name come together, and neighbors among them.

From Peter to Piotr it takes three changes: i for e, an o more, an e less.
"""

import matplotlib.pyplot as plt
from gallery import save

from sparsecluster import AgglomerativeClustering, pairwise

FORMS = """
Pedro Petros Peter Piotr Peadar Pierre Peder Peka Pietro Piero Petr Pyotr
Cristovao Christoph Christophe Cristobal Cristoforo Kristoffer Krystof Christopher
Miguel Michalis Michael Mick
""".split()

assert pairwise(["Peter"], ["Piotr"], "edit")[0, 0] == 3
model = AgglomerativeClustering(3, linkage="average", metric="edit").fit(FORMS)

figure, axes = plt.subplots(figsize=(8, 6.5))
model.plot(names=FORMS, ax=axes, orientation="right")
axes.set_xlabel("mean number of changed letters")
axes.set_title("Forms of Peter, Christopher and Michael by edit distance")
save(figure, __file__)
