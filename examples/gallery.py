"""What the scripts share: where pictures go, and how groups of points are drawn."""

import sys
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")
NOISE = "0.75"


def save(figure, script):
    """Save a figure under the name of its script, in the folder given as the first argument."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path()
    folder.mkdir(parents=True, exist_ok=True)
    figure.tight_layout()
    figure.savefig(folder / f"{Path(script).stem}.png", dpi=110)


def scatter(axes, points, labels, title):
    """Points in the colors of their clusters; noise, -1, in gray."""
    labels = np.asarray(labels)
    colors = np.where(labels < 0, NOISE, np.char.add("C", (labels % 10).astype(str)))
    axes.scatter(*points.T, c=colors, s=9, linewidths=0)
    axes.set_title(title, fontsize=10)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_aspect("equal")
