"""Bytes on disk: atomic files, stores, model files, checkpoints."""
