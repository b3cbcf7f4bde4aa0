"""The fingerprint of node facts: which machine they describe."""

from __future__ import annotations

from compiler.fingerprint import cpu_text, device_text, digest
from compiler.model.facts import NodeFacts
from compiler.topology import pci_addresses


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
    caches; an unknown architecture and unknown caches count as unknown.  Overrides, devices and
    kernel abilities do not change it.
    """
    return digest(facts_fingerprint_text(facts))


def facts_device_text(facts: NodeFacts) -> str:
    """Return the text behind :func:`facts_device_fingerprint`.

    A type of device that the facts need not know whole is ``?`` in it
    (:func:`compiler.topology.pci_addresses`).
    """
    return device_text(pci_addresses(facts.spec, "gpu"), pci_addresses(facts.spec, "nic"))


def facts_device_fingerprint(facts: NodeFacts) -> str:
    """Return the SHA-256, in hexadecimal, of the machine's canonical device text.

    The PCI addresses of its GPUs and network devices count, physical functions only.
    """
    return digest(facts_device_text(facts))
