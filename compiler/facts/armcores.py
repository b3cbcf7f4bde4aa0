"""Names of Arm cores by the implementer and part number of their MIDR.

The numbers are those of the Main ID Register in the technical reference manuals of the cores, as
the Linux kernel and util-linux list them too.
"""

from __future__ import annotations

from typing import Final

_ARM, _CAVIUM, _BROADCOM, _FUJITSU, _HISILICON = 0x41, 0x43, 0x42, 0x46, 0x48
_NVIDIA, _APM, _QUALCOMM, _APPLE, _MICROSOFT = 0x4E, 0x50, 0x51, 0x61, 0x6D
_PHYTIUM, _AMPERE = 0x70, 0xC0

_NAMES: Final[dict[int, dict[int, str]]] = {
    _ARM: {
        0xD03: "Cortex-A53",
        0xD04: "Cortex-A35",
        0xD05: "Cortex-A55",
        0xD06: "Cortex-A65",
        0xD07: "Cortex-A57",
        0xD08: "Cortex-A72",
        0xD09: "Cortex-A73",
        0xD0A: "Cortex-A75",
        0xD0B: "Cortex-A76",
        0xD0C: "Neoverse-N1",
        0xD0D: "Cortex-A77",
        0xD0E: "Cortex-A76AE",
        0xD40: "Neoverse-V1",
        0xD41: "Cortex-A78",
        0xD42: "Cortex-A78AE",
        0xD43: "Cortex-A65AE",
        0xD44: "Cortex-X1",
        0xD46: "Cortex-A510",
        0xD47: "Cortex-A710",
        0xD48: "Cortex-X2",
        0xD49: "Neoverse-N2",
        0xD4A: "Neoverse-E1",
        0xD4B: "Cortex-A78C",
        0xD4C: "Cortex-X1C",
        0xD4D: "Cortex-A715",
        0xD4E: "Cortex-X3",
        0xD4F: "Neoverse-V2",
        0xD80: "Cortex-A520",
        0xD81: "Cortex-A720",
        0xD82: "Cortex-X4",
        0xD83: "Neoverse-V3AE",
        0xD84: "Neoverse-V3",
        0xD85: "Cortex-X925",
        0xD87: "Cortex-A725",
        0xD89: "Cortex-A720AE",
        0xD8C: "C1-Ultra",
        0xD8E: "Neoverse-N3",
        0xD90: "C1-Premium",
    },
    _BROADCOM: {0x516: "ThunderX2"},
    _CAVIUM: {0x0A1: "ThunderX", 0x0AF: "ThunderX2", 0x0B8: "ThunderX3"},
    _FUJITSU: {0x001: "A64FX"},
    _HISILICON: {0xD01: "TaiShan-v110", 0xD02: "TaiShan-v120"},
    _NVIDIA: {0x003: "Denver-2", 0x004: "Carmel", 0x010: "Olympus"},
    _APM: {0x000: "X-Gene"},
    _QUALCOMM: {0x001: "Oryon", 0xC00: "Falkor"},
    _APPLE: {
        0x022: "Icestorm-M1",
        0x023: "Firestorm-M1",
        0x024: "Icestorm-M1-Pro",
        0x025: "Firestorm-M1-Pro",
        0x028: "Icestorm-M1-Max",
        0x029: "Firestorm-M1-Max",
        0x032: "Blizzard-M2",
        0x033: "Avalanche-M2",
        0x034: "Blizzard-M2-Pro",
        0x035: "Avalanche-M2-Pro",
        0x038: "Blizzard-M2-Max",
        0x039: "Avalanche-M2-Max",
    },
    _MICROSOFT: {0xD49: "Azure-Cobalt-100"},
    _PHYTIUM: {0x660: "FTC660", 0x661: "FTC661", 0x662: "FTC662", 0x663: "FTC663"},
    _AMPERE: {0xAC3: "Ampere-1", 0xAC4: "Ampere-1a"},
}


def core_name(midr: int) -> str:
    """Return the name of a core by its MIDR, else its numbers: ``implementer 0x41 part 0xd99``."""
    implementer, part = midr >> 24 & 0xFF, midr >> 4 & 0xFFF
    known = _NAMES.get(implementer, {}).get(part)
    return known or f"implementer 0x{implementer:02x} part 0x{part:03x}"
