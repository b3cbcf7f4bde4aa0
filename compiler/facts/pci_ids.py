"""Which PCI functions are GPUs, told by their class and their maker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

NVIDIA: Final = "10de"
AMD: Final = "1002"
INTEL: Final = "8086"
"""Vendor ids of those who make GPUs, as facts write them."""

# Class (top byte of the class code) -> vendors whose devices of that class are GPUs.  Display
# controllers of other vendors are the VGA of a board's management controller (ASPEED, Matrox) or
# of a virtual machine; Intel's processing accelerators are NPUs and not GPUs.
_VENDORS: Final[Mapping[str, tuple[str, ...]]] = {
    "03": (NVIDIA, AMD, INTEL),
    "12": (NVIDIA, AMD),
}
# ATI made such VGA too: Rage XL, and ES1000 under two numbers (drm_pciids.h of Linux).
_BOARD_VGA: Final = frozenset({(AMD, "4752"), (AMD, "515e"), (AMD, "5969")})

GPU_CLASSES: Final = frozenset(_VENDORS)
"""Classes in which GPUs are: display controllers and processing accelerators."""


def is_gpu(base: str, vendor: str | None, device: str | None) -> bool:
    """Return whether a PCI function is a GPU that can compute.

    Args:
        base: base class, two hexadecimal digits in lower case.
        vendor: PCI vendor id, four such digits; None: unknown, which no GPU is.
        device: PCI device id, four such digits; None: unknown.
    """
    return vendor in _VENDORS.get(base, ()) and (vendor, device) not in _BOARD_VGA
