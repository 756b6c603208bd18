"""Who executes the runs of a fit, and what they report."""
