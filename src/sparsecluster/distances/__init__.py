"""Distances and similarities of rows, from one table of metrics."""
