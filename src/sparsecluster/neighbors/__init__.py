"""Near rows: graphs within a radius or of the k nearest, and the minimum spanning tree."""
