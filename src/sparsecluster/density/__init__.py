"""Clusters by density: DBSCAN and HDBSCAN."""
