"""A picture as a Mermaid flowchart, which GitHub and GitLab draw inside Markdown.

Identifiers are made here (``u0``, ``t0``): a name from a policy, which may be ``end``, is never
one.  Labels are quoted, and in them everything but plain characters is a numeric entity.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from compiler.picture import Box, Edge, Kind, Picture, Rank
from compiler.report.cells import printable
from compiler.report.layout import rows_of
from compiler.report.palette import CYCLE, PLAIN, tints

_PLAIN: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 ,/.-")
MAX_TEXT: Final = 50_000
MAX_EDGES: Final = 500
"""What Mermaid draws by default, its ``maxTextSize`` and ``maxEdges``."""

JOINER: Final = "\u2060"
_BROKEN_UP: Final = ("\\n", "$$", ":fa-")
_STYLES: Final[Mapping[Kind, tuple[str, str]]] = {
    "protect": ("protected - thick line", "stroke:#000,stroke-width:4px"),
    "needed": ("raised by what needs it - double side lines", "stroke:#000,stroke-width:1px"),
    "keep": ("kept - thin line", "stroke:#000,stroke-width:1px"),
    "demote": (
        "demoted - dashed line",
        "stroke:#000,stroke-width:2px,stroke-dasharray:8 4",
    ),
    "place": ("only placed - dotted line", "stroke:#000,stroke-width:2px,stroke-dasharray:2 3"),
    "default": ("", "stroke:#777,stroke-width:1px"),
}
_LINES: Final = (
    ("need", "line - the two need each other; with an arrow, one needs the other"),
    ("raise", "thick arrow - needs it, and so raises it"),
    ("above", "dotted arrow - goes first inside the tier"),
)


def render_mermaid(picture: Picture) -> str:
    """Return the picture as a flowchart; equal pictures, equal bytes."""
    return "\n".join([*_Chart(picture).lines(), ""])


def too_large(chart: str) -> bool:
    """Return whether Mermaid refuses a chart of this module unless its limits are raised."""
    links = [line for line in chart.splitlines() if '"' not in line or " -. " in line]
    edges = sum(
        line.count(" & ") + 1
        for line in links
        if any(f" {arrow} " in line for arrow in ("---", "-->", "==>", "-.", "~~~"))
    )
    return len(chart) > MAX_TEXT or edges > MAX_EDGES


def escape(text: str) -> str:
    """Return a text for a quoted label.

    Labels are read as Markdown too, so nothing that begins a list or a link is left plain: digits
    and marks at the start, and the dot of ``www.``.
    """
    out: list[str] = []
    shown = printable(text)
    for i, char in enumerate(shown):
        plain = char in _PLAIN if char.isascii() else char.isalnum()
        if plain and i == 0 and not char.isalpha():
            plain = False
        if char == "." and shown[max(0, i - 3) : i].lower() == "www":
            plain = False
        out.append(char if plain else f"#{ord(char)};")
        if shown.startswith(_BROKEN_UP, i):
            out.append(f"#{ord(JOINER)};")
    return "".join(out) or "#160;"  # an empty label is a syntax error


class _Chart:
    def __init__(self, picture: Picture) -> None:
        self.picture = picture
        self.fill = tints(picture.lanes)
        boxes = [box for rank in picture.ranks for box in rank.boxes]
        self.boxes = {box.name: box for box in boxes}
        self.rows = rows_of(picture)
        self.ids = {box.name: f"u{i}" for i, box in enumerate(boxes)}

    def lines(self) -> list[str]:
        out = ["flowchart TB"]
        for i, rank in enumerate(self.picture.ranks):
            out += self._rank(i, rank)
        out += self._legend()
        out += [self._edge(edge) for edge in self.picture.edges]
        out += self._stack()
        return out + self._styles()

    def _rank(self, index: int, rank: Rank) -> list[str]:
        out = [f'  subgraph t{index}["{escape(rank.tier)}"]']
        groups = [group for row in self.rows if row.rank == index for group in row.groups]
        for number, group in enumerate(groups):
            if len(group) == 1:
                out.append(f"    {self._box(group[0])}")
                continue
            out.append(f'    subgraph t{index}g{number}["{escape(group[0].group)}"]')
            out += [f"      {self._box(box)}" for box in group]
            out.append("    end")
        return [*out, "  end"]

    def _box(self, box: Box) -> str:
        return _node(self.ids[box.name], (box.name, *box.lines), box.kind)

    def _edge(self, edge: Edge) -> str:
        link = {
            "need": "---" if edge.mutual else "-->",
            "raise": "==>",
            "above": '-. "above, cycle" .->' if edge.cycle else '-. "above" .->',
        }[edge.kind]
        return f"  {self.ids[edge.source]} {link} {self.ids[edge.target]}"

    def _stack(self) -> list[str]:
        """Return what holds the rows on top of each other, and the boxes of a group in columns.

        Between rows stands a gate that is not seen, or there would be a link from each box of a
        row to each of the next.
        """
        out = [f"  {self.ids[a]} ~~~ {self.ids[b]}" for row in self.rows for a, b in row.stacked]
        heads = [[self.ids[name] for name in row.heads] for row in self.rows] + [["legend"]]
        for i, row in enumerate(self.rows):
            out.append(f'  g{i}[" "]')
            out.append(f"  {' & '.join(self.ids[name] for name in row.tails)} ~~~ g{i}")
            out.append(f"  g{i} ~~~ {' & '.join(heads[i + 1])}")
        return out

    def _legend(self) -> list[str]:
        picture = self.picture
        kinds = {box.kind for box in self.boxes.values()}
        edges = {edge.kind for edge in picture.edges}
        texts = [text for kind, (text, _) in _STYLES.items() if kind in kinds and text]
        texts += [text for kind, text in _LINES if kind in edges]
        texts += picture.notes
        out = [f'  subgraph key["{escape(picture.title)}"]']
        out += [
            f"    {_node(f'l{i}', (f'lane {lane.name}', lane.detail), 'keep')}"
            for i, lane in enumerate(picture.lanes)
        ]
        out.append(f"    {_node('legend', texts, 'default')}")
        return [*out, "  end"]

    def _styles(self) -> list[str]:
        picture = self.picture
        kinds = sorted({box.kind for box in self.boxes.values()})
        out = [f"  classDef {kind}_ {_STYLES[kind][1]}" for kind in kinds]
        out += [
            f"  classDef lane{i} fill:{self.fill[lane.name]},color:#000"
            for i, lane in enumerate(picture.lanes)
        ]
        out.append(f"  classDef none fill:{PLAIN},color:#000")
        out.append(f"  classDef text fill:{PLAIN},color:#000,stroke:#777,text-align:left")
        for kind in kinds:
            out += _class(
                (self.ids[b.name] for b in self.boxes.values() if b.kind == kind), f"{kind}_"
            )
        for i, lane in enumerate(picture.lanes):
            members = [self.ids[b.name] for b in self.boxes.values() if b.lane == lane.name]
            out += _class([*members, f"l{i}"], f"lane{i}")
        out += _class((self.ids[b.name] for b in self.boxes.values() if b.lane is None), "none")
        out += _class(["legend"], "text")
        out.append("  classDef gate fill:none,stroke:none,font-size:1px")
        out += _class((f"g{i}" for i in range(len(self.rows))), "gate")
        cycles = [str(i) for i, edge in enumerate(picture.edges) if edge.cycle]
        if cycles:
            out.append(f"  linkStyle {','.join(cycles)} stroke:{CYCLE},stroke-width:4px")
        return out


def _node(id: str, lines: Iterable[str], kind: Kind) -> str:
    label = "<br>".join(escape(line.strip(" ")) for line in lines) or escape(" ")
    opened, closed = {"needed": ("[[", "]]"), "default": ("(", ")")}.get(kind, ("[", "]"))
    return f'{id}{opened}"{label}"{closed}'


def _class(ids: Iterable[str], name: str) -> list[str]:
    members = ",".join(ids)
    return [f"  class {members} {name}"] if members else []
