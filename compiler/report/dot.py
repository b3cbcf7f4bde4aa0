"""A picture in the language of Graphviz.

Tiers are stacked: invisible gates between them hold every box of a tier below every box of the
tier above, and a tier with many intents is broken into several rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from compiler.picture import Box, Edge, Kind, Picture, Rank
from compiler.report.cells import printable
from compiler.report.layout import rows_of
from compiler.report.palette import CYCLE, PLAIN, tints

_STYLES: Final[Mapping[Kind, tuple[str, str]]] = {
    "protect": ("protected: thick line", 'penwidth=3, style="filled"'),
    "needed": ("raised by what needs it: double line", 'peripheries=2, style="filled"'),
    "keep": ("kept: thin line", 'style="filled"'),
    "demote": ("demoted: dashed line", 'style="filled,dashed"'),
    "place": ("only placed: dotted line", 'style="filled,dotted"'),
    "default": ("", 'style="filled,rounded", color="#777777"'),
}
_LINES: Final = (
    ("need", "line: the two need each other; with an arrow: one needs the other"),
    ("raise", "thick arrow: needs it, and so raises it"),
    ("above", "dashed arrow: goes first inside the tier"),
)


def render_dot(picture: Picture) -> str:
    """Return the picture for ``dot``; equal pictures, equal bytes."""
    return "\n".join([*_Drawing(picture).lines(), ""])


def escape(text: str) -> str:
    """Return a text for an HTML-like label.

    Graphviz replaces ``\\N`` and the like even there, after it has read the entities; a backslash
    must be escaped by another.  A text of ``]`` alone is lost or an error, unless as an entity.
    """
    out = printable(text) or "\u00a0"  # an empty element is a syntax error
    for char, entity in (
        ("&", "&amp;"),
        ("<", "&lt;"),
        (">", "&gt;"),
        ('"', "&quot;"),
        ("\\", "\\\\"),
        ("]", "&#93;"),
    ):
        out = out.replace(char, entity)
    return out


class _Drawing:
    def __init__(self, picture: Picture) -> None:
        self.picture = picture
        self.fill = tints(picture.lanes)
        boxes = [box for rank in picture.ranks for box in rank.boxes]
        self.ids = {box.name: f"u{i}" for i, box in enumerate(boxes)}
        self.rows = rows_of(picture)
        self.place = {name: i for i, name in enumerate(self.ids)}

    def lines(self) -> list[str]:
        out = [
            "digraph tiers {",
            f"  graph [label=<<B>{escape(self.picture.title)}</B>>, labelloc=t, fontsize=18, "
            'fontname="Helvetica,Arial,sans-serif", rankdir=TB, newrank=false, nodesep=0.3, '
            'ranksep=0.35, bgcolor="#ffffff"]',
            '  node [shape=box, fontname="Helvetica,Arial,sans-serif", fontsize=11, '
            'fontcolor="#000000", margin="0.14,0.08"]',
            '  edge [fontname="Helvetica,Arial,sans-serif", fontsize=11, color="#444444"]',
        ]
        for i, rank in enumerate(self.picture.ranks):
            out += self._rank(i, rank)
        out += self._edges()
        out += self._legend()
        out += self._stack()
        return [*out, "}"]

    def _rank(self, index: int, rank: Rank) -> list[str]:
        out = [
            f"  subgraph cluster_t{index} {{",
            f'    label=<<B>{escape(rank.tier)}</B>>; labeljust=l; fontsize=16; color="#888888"; '
            'style="filled"; fillcolor="#f4f4f4"; margin=14',
        ]
        groups = [group for row in self.rows if row.rank == index for group in row.groups]
        for number, group in enumerate(groups):
            if len(group) == 1:
                out += [f"    {line}" for line in self._box(group[0])]
                continue
            out += [
                f"    subgraph cluster_t{index}_{number} {{",
                f"      label=<{escape(group[0].group)}>; labeljust=l; fontsize=13; "
                'color="#aaaaaa"; style="filled"; fillcolor="#fcfcfc"; margin=10',
                *(f"      {line}" for box in group for line in self._box(box)),
                "    }",
            ]
        return [*out, "  }"]

    def _box(self, box: Box) -> list[str]:
        rows = [f"<B>{escape(box.name)}</B>", *(escape(line) for line in box.lines)]
        label = "".join(f'{row}<BR ALIGN="LEFT"/>' for row in rows)
        fill = self.fill.get(box.lane, PLAIN) if box.lane is not None else PLAIN
        tip = _tooltip(box.why or (box.name,))
        return [
            f'{self.ids[box.name]} [label=<{label}>, {_STYLES[box.kind][1]}, fillcolor="{fill}", '
            f"tooltip={tip}]"
        ]

    def _edges(self) -> list[str]:
        return [self._edge(edge) for edge in self.picture.edges]

    def _edge(self, edge: Edge) -> str:
        source, target = edge.source, edge.target
        attributes = {
            "need": ["dir=none"] if edge.mutual else ["arrowsize=0.8"],
            "raise": ["penwidth=2.6", 'color="#000000"'],
            "above": ['style="dashed"', "arrowhead=empty", 'label="above"'],
        }[edge.kind]
        if edge.cycle:
            attributes[-1] = 'label="above (cycle)"'
            attributes += [f'color="{CYCLE}"', f'fontcolor="{CYCLE}"', "penwidth=2.6"]
        attributes.append(f"tooltip={_tooltip([edge.why])}")
        if self.place[source] > self.place[target]:
            if edge.kind == "above":
                attributes.append("constraint=false")  # upward: it must not pull tiers about
            else:
                source, target = target, source
                if not (edge.mutual and edge.kind == "need"):
                    attributes.append("dir=back")
        return f"  {self.ids[source]} -> {self.ids[target]} [{', '.join(attributes)}]"

    def _stack(self) -> list[str]:
        """Return what holds the rows on top of each other, and the boxes of a group in columns."""
        out = ["  edge [style=invis, weight=0]"]
        for row in self.rows:
            out += [f"  {self.ids[a]} -> {self.ids[b]}" for a, b in row.stacked]
        heads = [[self.ids[name] for name in row.heads] for row in self.rows] + [["legend"]]
        for i, row in enumerate(self.rows):
            tails = " ".join(self.ids[name] for name in row.tails)
            out.append(f'  g{i} [shape=point, width=0, height=0, style=invis, label=""]')
            out.append(f"  {{{tails}}} -> g{i}")
            out.append(f"  g{i} -> {{{' '.join(heads[i + 1])}}}")
        return out

    def _legend(self) -> list[str]:
        picture = self.picture
        kinds = {box.kind for rank in picture.ranks for box in rank.boxes}
        edges = {edge.kind for edge in picture.edges}
        rows = [
            f'<TR><TD BGCOLOR="{self.fill[lane.name]}" BORDER="1" ALIGN="LEFT">lane '
            f'{escape(lane.name)}</TD><TD ALIGN="LEFT">{escape(lane.detail)}</TD></TR>'
            for lane in picture.lanes
        ]
        texts = [text for kind, (text, _) in _STYLES.items() if kind in kinds and text]
        texts += [text for kind, text in _LINES if kind in edges]
        texts += picture.notes
        rows += [f'<TR><TD COLSPAN="2" ALIGN="LEFT">{escape(text)}</TD></TR>' for text in texts]
        rows = rows or [f"<TR><TD>{escape('')}</TD></TR>"]
        table = f'<TABLE BORDER="1" CELLBORDER="0" CELLSPACING="3">{"".join(rows)}</TABLE>'
        return [f'  legend [shape=plain, label=<{table}>, tooltip="legend"]']


def _tooltip(lines: Iterable[str]) -> str:
    """Return a quoted string of lines.

    Versions of Graphviz differ in how often they unescape a tooltip, so a backslash is shown by a
    character that looks like one.
    """
    text = "\n".join(printable(line) for line in lines)
    for char, written in (("&", "&amp;"), ("\\", "\u29f5"), ('"', "&quot;"), ("\n", "\\n")):
        text = text.replace(char, written)
    return f'"{text}"'
