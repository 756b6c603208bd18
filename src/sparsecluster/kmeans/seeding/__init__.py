"""Ways to start k-means: a file each, and a registry that names them."""
