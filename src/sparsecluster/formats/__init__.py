"""Files as blocks of rows: one file per format, and what they share."""
