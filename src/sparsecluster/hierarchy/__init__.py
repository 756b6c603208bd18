"""Clusters of clusters, up to one that holds all rows."""
