"""The fingerprint of node facts: which CPU layout they describe."""

from __future__ import annotations

from compiler.fingerprint import cpu_text, digest
from compiler.model.facts import NodeFacts


def facts_fingerprint_text(facts: NodeFacts) -> str:
    """Return the text behind :func:`facts_fingerprint`."""
    spec = facts.spec
    return cpu_text(
        spec.arch,
        spec.cpus.online,
        (core for group in spec.cores for core in group.cores()),
        (llc.cpus for llc in spec.llcs),
    )


def facts_fingerprint(facts: NodeFacts) -> str:
    """Return the SHA-256, in hexadecimal, of the machine's canonical CPU text.

    Only what the machine itself shows counts: architecture, online CPUs, cores and last-level
    caches.  Overrides, devices and kernel abilities do not change it.
    """
    return digest(facts_fingerprint_text(facts))
