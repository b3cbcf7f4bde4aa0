"""Asking vendors' tools of the running machine; nothing here is needed for CPU facts."""
