"""Other processes: how long they may take."""

# Seconds until a process counts as one that hangs: far more than it takes beside any other load.
HANGS = 900
