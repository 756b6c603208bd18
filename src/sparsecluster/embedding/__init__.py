"""Data made smaller before they are clustered."""
