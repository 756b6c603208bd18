"""Run the command line as ``python -m sparsecluster``."""

from sparsecluster.cli import main

main()
