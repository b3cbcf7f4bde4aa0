"""Readers of one format each: text in, what it says of its nodes out."""
