"""Benchmarks of sparsecluster against its peers, each run in a process of its own."""
