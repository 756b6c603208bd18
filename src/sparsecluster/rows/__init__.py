"""What every algorithm sees: rows of data, checked once."""
