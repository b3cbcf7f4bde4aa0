"""Pictures for tests: read back from what the formats say, and made from hostile texts."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from html import unescape
from xml.etree import ElementTree

from hypothesis import strategies as st

from compiler.picture import Box, Edge, Key, Picture, Rank
from compiler.report.mermaid import JOINER

SVG = "{http://www.w3.org/2000/svg}"
XLINK = "{http://www.w3.org/1999/xlink}title"

PIECES = (
    '"', "'", "\\", "\\N", "\\G", "\\n", "\\\\", "\n", "\r", "\t", "\0", "\x1b[31m", "\x7f",
    "<", ">", "&", "&amp;", "&#60;", "<br/>", "<B>", "</TABLE>", "<script>", "-->", "]]>",
    "{", "}", "|", "[", "]", "(", ")", "[[", "]]", "#", "#35;", "#quot;", ";", ":", ":::", "%%",
    "%%{init: {}}%%", "---", "==>", "~~~", "`", "``", "*", "**x**", "_x_", "~~", "- ", "1. ", "+ ",
    "# ", "> ", "www.example.org", "http://example.org/", "a@example.org", "$$x$$", "@{", "fa:fa-x",
    "end", "subgraph", "graph", "class", "click", "style", "default", "direction", "x", "o", " ",
    "strict", "digraph", "node", "edge", "\u2028", "\u202e", "\ud800", "\udcff", "\ufeff", "é",
    "漢", "🐄", "\u0301",
)  # fmt: skip
"""What means something to one of the two languages, to HTML, to Markdown or to a terminal."""

hostile = st.lists(st.sampled_from(PIECES), min_size=1, max_size=5).map("".join)


@st.composite
def hostile_pictures(draw: st.DrawFn) -> Picture:
    """Pictures whose every text is hostile."""
    names = draw(st.lists(hostile, min_size=3, max_size=7, unique=True))
    lanes = draw(st.lists(hostile, min_size=1, max_size=2, unique=True))
    boxes = [
        Box(
            name=name,
            group=draw(st.sampled_from(names[:2])),
            kind=draw(st.sampled_from(("protect", "demote", "keep", "needed", "place", "default"))),
            lane=draw(st.sampled_from([None, *lanes])),
            lines=tuple(draw(st.lists(hostile, max_size=2))),
            why=tuple(draw(st.lists(hostile, max_size=2))),
        )
        for name in names
    ]
    cut = draw(st.integers(1, len(boxes) - 1))
    pairs = draw(st.lists(st.tuples(st.sampled_from(names), st.sampled_from(names)), max_size=5))
    return Picture(
        title=draw(hostile),
        ranks=(Rank(draw(hostile), tuple(boxes[:cut])), Rank("end", tuple(boxes[cut:]))),
        edges=tuple(
            Edge(
                source,
                target,
                draw(st.sampled_from(("need", "raise", "above"))),
                mutual=draw(st.booleans()),
                cycle=draw(st.booleans()),
                why=draw(hostile),
            )
            for source, target in pairs
        ),
        lanes=tuple(Key(name, draw(hostile)) for name in lanes),
        notes=tuple(draw(st.lists(hostile, max_size=2))),
    )


def plain(text: str) -> str:
    """Return a text with its blanks made equal, as renderers do."""
    return " ".join(text.replace("\u00a0", " ").split())


# --- dot -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Svg:
    """What Graphviz drew: nodes and clusters by their names, each with its lines of text."""

    nodes: dict[str, list[str]]
    clusters: dict[str, list[str]]
    edges: list[tuple[str, str]]
    tooltips: dict[str, str]
    centers: dict[str, tuple[float, float]]
    """Of nodes; y grows upwards, as in Graphviz."""
    bytes: bytes


def draw_svg(dot: str, source: str) -> Svg:
    """Have Graphviz draw a text; any word of its on stderr is a failure."""
    done = subprocess.run(
        [dot, "-Tsvg"], input=source.encode(), capture_output=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    assert done.stderr == b"", done.stderr.decode()
    root = ElementTree.fromstring(done.stdout)
    found = Svg({}, {}, [], {}, {}, done.stdout)
    for group in root.iter(f"{SVG}g"):
        kind = group.get("class")
        title = group.find(f"{SVG}title")
        name = (title.text if title is not None else None) or ""
        texts = [plain(text.text or "") for text in group.iter(f"{SVG}text")]
        if kind == "node":
            found.nodes[name] = texts
            ys = [float(t.get("y", "0")) for t in group.iter(f"{SVG}text")]
            xs = [float(t.get("x", "0")) for t in group.iter(f"{SVG}text")]
            if ys:
                found.centers[name] = (sum(xs) / len(xs), -sum(ys) / len(ys))
        elif kind == "cluster":
            found.clusters[name] = texts
        elif kind == "edge":
            source_, _, target = name.partition("->")
            found.edges.append((source_, target))
        for link in group.iter(f"{SVG}a"):
            if kind == "node":
                found.tooltips[name] = link.get(XLINK, "")
    return found


# --- mermaid ---------------------------------------------------------------------------------

_TEXT = r"(?:[A-Za-z0-9 ,/.\-]|[^\W\d_]|[^\x00-\x7f]|#[0-9]+;|<br>)*"
_NODE = re.compile(rf'(?P<id>[a-z]+[0-9]*)(?:\["(?P<a>{_TEXT})"\]|\[\["(?P<b>{_TEXT})"\]\]'
                   rf'|\("(?P<c>{_TEXT})"\))')  # fmt: skip
_SUBGRAPH = re.compile(rf'subgraph (?P<id>[a-z][a-z0-9]*)\["(?P<text>{_TEXT})"\]')
_LINK = re.compile(
    r"(?P<from>u[0-9]+) (?P<link>---|-->|==>|-\. \"above(?:, cycle)?\" \.->) (?P<to>u[0-9]+)"
)
_HIDDEN = re.compile(r"[ug][0-9]+(?: & u[0-9]+)* ~~~ (?:legend|[ug][0-9]+(?: & u[0-9]+)*)")
_CLASSDEF = re.compile(
    r"classDef (?P<id>[a-z]+[0-9]*_?) "
    r"(?:[a-z-]+:(?:#[0-9a-f]{3,6}|[0-9]+px|[0-9]+ [0-9]+|none|left)(?:,(?!$)|$))+"
)
_CLASS = re.compile(r"class (?P<ids>[a-z]+[0-9]*(?:,[a-z]+[0-9]*)*) (?P<name>[a-z]+[0-9]*_?)")
_LINKSTYLE = re.compile(
    r"linkStyle (?P<at>[0-9]+(?:,[0-9]+)*) stroke:#[0-9a-f]{6},stroke-width:4px"
)
KEYWORDS = {
    "end", "subgraph", "graph", "flowchart", "style", "class", "click", "default", "linkstyle",
    "classdef", "direction", "href", "call",
}  # fmt: skip


@dataclass(frozen=True)
class Chart:
    """What a flowchart says."""

    nodes: dict[str, list[str]]
    inside: dict[str, tuple[str, ...]]
    """Texts of the subgraphs around each node, the outermost first."""
    links: list[tuple[str, str, str]]
    classes: dict[str, list[str]]
    styled: set[int]


def read_chart(source: str) -> Chart:
    """Read the subset of Mermaid that is emitted, and refuse everything else."""
    lines = source.split("\n")
    assert lines[0] == "flowchart TB"
    assert lines[-1] == ""
    chart = Chart({}, {}, [], {}, set())
    around: list[str] = []
    defined: set[str] = set()
    ids: set[str] = set()
    for line in (text.strip(" ") for text in lines[1:-1]):
        if line == "end":
            around.pop()
        elif match := _SUBGRAPH.fullmatch(line):
            _fresh(match["id"], ids)
            around.append(_decode(match["text"]))
        elif match := _NODE.fullmatch(line):
            _fresh(match["id"], ids)
            text = next(t for t in (match["a"], match["b"], match["c"]) if t is not None)
            assert text, "an empty label is a syntax error"
            chart.nodes[match["id"]] = [_decode(part) for part in text.split("<br>")]
            chart.inside[match["id"]] = tuple(around)
        elif match := _LINK.fullmatch(line):
            assert {match["from"], match["to"]} <= ids
            chart.links.append((match["from"], match["link"], match["to"]))
        elif match := _CLASSDEF.fullmatch(line):
            assert match["id"] not in KEYWORDS
            defined.add(match["id"])
        elif match := _CLASS.fullmatch(line):
            assert match["name"] in defined
            for id in match["ids"].split(","):
                assert id in ids, line
                chart.classes.setdefault(id, []).append(match["name"])
        elif match := _LINKSTYLE.fullmatch(line):
            chart.styled.update(int(i) for i in match["at"].split(","))
        else:
            assert _HIDDEN.fullmatch(line), line
            assert set(re.findall(r"[ugl][0-9a-z]+", line)) <= ids, line
    assert not around, "a subgraph has no end"
    return chart


def _fresh(id: str, ids: set[str]) -> None:
    assert id not in ids, f"{id} is defined twice"
    assert id not in KEYWORDS
    ids.add(id)


def _decode(text: str) -> str:
    assert not text[:1].isdigit(), "Markdown could begin a list"
    shown = unescape(re.sub(r"#([0-9]+);", r"&#\1;", text))
    for special in (r"\n", "$$", ":fa-"):
        assert special not in shown, "Mermaid would read it"
    return plain(shown.replace(JOINER, ""))
