"""Backends: each turns a compiled plan into files for one mechanism."""
