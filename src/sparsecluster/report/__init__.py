"""A fitted model as a page to look at."""
