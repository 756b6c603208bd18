"""Clusters by centers: k-means and its relatives."""
