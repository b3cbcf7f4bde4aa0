"""What lscpu prints, for tests of reading it."""

from __future__ import annotations

import pytest

from compiler.cpuset import CpuSet
from compiler.facts.formats import lscpu_json, lscpu_table, lscpu_text, sbc_bench
from compiler.facts.formats.format import Text
from compiler.facts.partial import Partial, ReadError

FORMATS = (
    *lscpu_table.FORMATS,
    lscpu_text.FORMAT,
    *lscpu_json.FORMATS,
    sbc_bench.FORMAT,
)


def formats_of(text: str) -> list[str]:
    return [one.name for one in FORMATS if one.sniff(text)]


def read(text: str, name: str = "node1.txt") -> Partial:
    [found] = [one for one in FORMATS if one.sniff(text)]
    [partial] = found.read(Text(name, text))
    return partial


def refusal(text: str) -> ReadError:
    [found] = [one for one in FORMATS if one.sniff(text)]
    with pytest.raises(ReadError) as caught:
        found.read(Text("node1.txt", text))
    return caught.value


def cpus(text: str) -> CpuSet:
    return CpuSet.parse(text)


def sets(*texts: str) -> tuple[CpuSet, ...]:
    return tuple(cpus(text) for text in texts)


def llc_sets(partial: Partial) -> tuple[CpuSet, ...]:
    assert partial.llcs is not None
    return tuple(llc.cpus for llc in partial.llcs)


def p(header: str, *rows: str) -> str:
    return "\n".join(["# The following is the parsable format", f"# {header}", *rows, ""])


def said(partial: Partial) -> str:
    return "\n".join(note.message for note in partial.notes)


DEFAULT = "CPU,Core,Socket,Node,,L1d,L1i,L2,L3"


E_TABLE = """\
$ lscpu -e
CPU NODE SOCKET CORE L1d:L1i:L2:L3 ONLINE    MAXMHZ   MINMHZ
  0    0      0    0 0:0:0:0          yes 3200.0000 800.0000
  1    -      -    - -                 no         -        -
  2    2      1    1 1:1:1:1          yes 3200.0000 800.0000
  3    2      1    1 1:1:1:1          yes 3200.0000 800.0000
"""


C05 = """\
{ "cpus": [
   {"cpu": 0, "core": 0, "node": 0},
   {"cpu": 1, "core": -, "node": -},
   {"cpu": 2, "core": 1, "node": 0} ] }
"""


GB_LIKE = """\
Architecture:             aarch64
CPU(s):                   6
On-line CPU(s) list:      0-5
Model name:               Cortex-X925
Thread(s) per core:       1
Core(s) per socket:       2
Socket(s):                1
Model name:               Cortex-A725
Thread(s) per core:       1
Core(s) per socket:       4
Socket(s):                1
L3 cache:                 24 MiB (2 instances)
NUMA node(s):             1
NUMA node0 CPU(s):        0-5
Vulnerability Spectre v2: Mitigation; CSV2, BHB
"""


TABLE = """\
CPU sysfs topology (clusters, cpufreq members, clockspeeds)
                 cpufreq   min    max
 CPU    cluster  policy   speed  speed   core type
  0       36        0      338    2808   Cortex-A725 / r0p1
  1       36        1     1378    3900   Cortex-X925 / r0p1
  2       36        2      338    2860   Cortex-A725 / r0p1
  3       36        3     1378    4004   Cortex-X925 / r0p1
"""


SUMMARY = """
CPU(s):              4
On-line CPU(s) list: 0-3
Thread(s) per core:  1
Core(s) per socket:  4
Socket(s):           1

Processor Information
\tFamily: ARMv8
"""


def kinds(partial: Partial) -> list[tuple[str, str, str | None, int | None]] | None:
    if partial.kinds is None:
        return None
    return [(kind.name, str(kind.cpus), kind.model, kind.value) for kind in partial.kinds]
