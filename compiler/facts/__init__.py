"""Node facts: collecting them from a machine, compressing, writing and checking them."""
