"""Primates: a tree of species from Newick text, drawn with the lengths of its branches."""

import matplotlib.pyplot as plt
from gallery import save

from sparsecluster import read_newick

TEXT = """
(Bovine:0.69395, (Spider Monkey:0.390, (Gibbon:0.36079, (Orang:0.33636, (Gorilla:0.17147,
(Chimp:0.19268, Human:0.11927):0.08386):0.06124):0.15057):0.54939));
"""


def draw(axes, node, start, place):
    """Draw a node and all below it from left to right; returns its height on the page."""
    end = start + node.length
    if not node.children:
        level = place[node.name]
        axes.text(end + 0.01, level, node.name, va="center")
    else:
        levels = [draw(axes, child, end, place) for child in node.children]
        level = (levels[0] + levels[-1]) / 2
        axes.plot([end, end], [levels[0], levels[-1]], color="C0")
    axes.plot([start, end], [level, level], color="C0")
    return level


tree = read_newick(TEXT)
order = {leaf.name: float(i) for i, leaf in enumerate(tree.leaves)}

figure, axes = plt.subplots(figsize=(7, 4))
draw(axes, tree, 0.0, order)
axes.set_xlim(-0.02, 1.45)
axes.set_yticks([])
axes.set_xlabel("length of branches from the root")
axes.set_title("Chimp and human share the youngest branch")
for side in ("top", "left", "right"):
    axes.spines[side].set_visible(False)
save(figure, __file__)
