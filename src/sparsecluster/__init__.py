"""Exact and fast clustering of large, sparse, high-dimensional data."""

import lazy_loader

# The stub beside this file says where each public name lives; it is loaded when first used.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
