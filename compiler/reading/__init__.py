"""From bytes to documents; ``compiler.source`` is the public door."""
