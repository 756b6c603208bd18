"""Data to try things on."""
