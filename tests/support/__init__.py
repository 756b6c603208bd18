"""What the tests share: the oracle, problems to cluster, files to read."""
