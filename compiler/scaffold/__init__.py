"""A new policy repository: what its files say, and writing them all or none."""
