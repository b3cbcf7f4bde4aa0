"""tierc: compiles CPU-scheduling intent and node topology into concrete per-node files."""

__version__ = "0.1.0"
