"""Trees of clusters, from the root down."""
