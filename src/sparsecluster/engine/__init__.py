"""The loop of k-means and its parts: seeding, assignment, empty clusters, update, stopping."""
