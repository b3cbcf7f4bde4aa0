"""Pictures of machines in SVG, and names that are markup or move cursors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree import ElementTree

import pytest

from compiler.cpuset import CpuSet
from compiler.model.facts import NodeFacts
from compiler.picture.machine import MachineLane
from compiler.picture.machine_layout import machine_picture
from compiler.report.cells import cells
from compiler.report.machine_svg import render_machine_svg
from tests.machine_samples import MACHINES, device, draw, workstation
from tests.machines import plain

SVG = "{http://www.w3.org/2000/svg}"

# --- hostile names ---------------------------------------------------------------------------


NASTY = 'x\x1b[31m<script>&"\u202e\u5c71\x00]]>' + "y" * 300


def nasty() -> NodeFacts:
    row = device("gpu0", "0000:01:00.0", "0-3", model=NASTY, names=(NASTY,))
    sample = plain(4, devices=(row, {"id": NASTY, "type": "nic"}))
    return sample.model_copy(
        update={"spec": sample.spec.model_copy(update={"warnings": (NASTY, "a\nb")})}
    )


def test_nothing_of_a_name_moves_a_cursor_or_is_lost() -> None:
    for width in (40, 80):
        text = draw(nasty(), width)
        assert all(c == "\n" or c.isprintable() for c in text)
        for line in text.splitlines():
            assert sum(cell.width for cell in cells(line)) <= width
        assert text.replace("│", "").count("y") >= 4 * 300
    assert draw(nasty(), 80, ascii_only=True).isascii()


def test_nothing_of_a_name_is_markup() -> None:
    svg = render_machine_svg(machine_picture(nasty(), [MachineLane(NASTY, CpuSet([0]), NASTY)]))
    root = ElementTree.fromstring(svg)
    tags = {element.tag.removeprefix(SVG) for element in root.iter()}
    assert tags <= {"svg", "title", "style", "g", "rect", "text"}
    assert any("<script>" in (t.text or "") for t in root.iter(SVG + "text"))


# --- SVG -------------------------------------------------------------------------------------


def placed(root: ElementTree.Element) -> Iterator[tuple[ElementTree.Element, float, float]]:
    """Yield every element with the place of its origin."""

    def visit(
        element: ElementTree.Element, x: float, y: float
    ) -> Iterator[tuple[ElementTree.Element, float, float]]:
        move = re.fullmatch(r"translate\(([\d.]+),([\d.]+)\)", element.get("transform") or "")
        if move is not None:
            x, y = x + float(move[1]), y + float(move[2])
        yield element, x, y
        for child in element:
            yield from visit(child, x, y)

    yield from visit(root, 0, 0)


def area(element: ElementTree.Element, x: float, y: float) -> tuple[float, float, float, float]:
    return x, y, x + float(element.attrib["width"]), y + float(element.attrib["height"])


def apart(one: tuple[float, float, float, float], other: tuple[float, float, float, float]) -> bool:
    slack = 0.3  # coordinates are rounded
    return (
        one[2] <= other[0] + slack
        or other[2] <= one[0] + slack
        or one[3] <= other[1] + slack
        or other[3] <= one[1] + slack
    )


@pytest.mark.parametrize("name", sorted(MACHINES))
def test_the_svg_has_every_cpu_once_and_nothing_overlaps(name: str) -> None:
    sample = MACHINES[name]()
    svg = render_machine_svg(machine_picture(sample))
    root = ElementTree.fromstring(svg)
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    solid, words, labels = [], [], []
    for element, x, y in placed(root):
        if element.tag == SVG + "rect" and element.get("class") not in ("back", "box"):
            solid.append(area(element, x, y))
        if element.tag == SVG + "text":
            text = element.text or ""
            words.append((x, y, x + 7.25 * len(text), y + 15.0))
            if element.get("class") == "on" and text.isdigit():
                labels.append(int(text))
    assert sorted(labels) == sorted(sample.spec.cpus.online)
    for x0, y0, x1, y1 in (*solid, *words):
        assert 0 <= x0 <= x1 <= width
        assert 0 <= y0 <= y1 <= height
    some = solid if len(solid) < 300 else solid[:150] + solid[-150:]
    assert all(apart(a, b) for i, a in enumerate(some) for b in some[:i])
    text_some = words if len(words) < 300 else words[:150] + words[-150:]
    assert all(apart(a, b) for i, a in enumerate(text_some) for b in text_some[:i])
    for device_ in sample.spec.devices:
        assert device_.parent is not None or re.search(f">{device_.id}[ <]", svg)
    frames = [area(e, x, y) for e, x, y in placed(root) if e.get("class") == "box"]
    for a in frames:
        for b in frames:
            nested = all(
                lo <= hi
                for lo, hi in zip((a[0], a[1], b[2], b[3]), (b[0], b[1], a[2], a[3]), strict=True)
            )
            assert a == b or apart(a, b) or nested or _inside(a, b)


def _inside(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    return a[0] >= b[0] and a[1] >= b[1] and a[2] <= b[2] and a[3] <= b[3]


def test_the_svg_needs_nothing_from_elsewhere() -> None:
    svg = render_machine_svg(machine_picture(workstation()))
    assert svg.count("http") == 1  # the name space
    for word in ("<script", "href", "@import", "@font-face", "url(", "<image", "<foreignObject"):
        assert word not in svg
    assert "prefers-color-scheme:dark" in svg
