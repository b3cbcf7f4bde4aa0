"""The documents of the language as frozen, strict models; one module a kind.

``schemas/*.json`` are generated from these (``make schemas``).  Models hold no places: a
:class:`compiler.decode.Loaded` pairs one with the document it came from.
"""
