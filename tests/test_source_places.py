"""Places that were forgotten are the same when they are asked for again."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.fleet import write_fleet
from compiler import source
from compiler.diagnostics import Sink
from compiler.lint import run_rules
from compiler.pipeline import compile_policy
from compiler.project import load as load_policy
from compiler.project import locate
from compiler.source import parse_source
from tests.conftest import ROOT
from tests.policies import BOX, write

TEXTS = {
    "block.yaml": (ROOT / "examples/hgx/nodes/hgx-a.yaml").read_bytes(),
    "flow.yaml": b"a: {b: [1, {c: d}], e: 'f'}\ng: [h, [i, {j: k}]]\n",
    "alias.yaml": b"a: &x {b: {c: [1, 2]}}\nd: *x\ne: {f: *x, g: {h: *x}}\n",
    "bom.yaml": b"\xef\xbb\xbfa: {b: {c: d}}\r\ne:\r\n  f:\r\n    - g: h\r\n",
    "two.yaml": b"a: {b: {c: 1}}\n---\na: {b: {c: {d: 2}}}\n---\na: {b: {c: 3}}\n",
    "one.json": b'{"a": {"b": {"c": [1, {"d": 2}]}}, "e": []}\n',
}


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("depth", [0, 1, 2, 3])
def test_forgotten_places_come_back_the_same(name: str, depth: int) -> None:
    kept = parse_source(name, TEXTS[name], Sink()).documents
    for whole, light in zip(kept, parse_source(name, TEXTS[name], Sink()).documents, strict=True):
        routes = list(whole.marks)
        assert max(map(len, routes)) > 2
        light.forget_places(depth)
        for route in reversed(routes):  # the deepest first
            assert light.marks[route] == whole.marks[route]
            assert route in light.marks
        assert list(light.marks) == routes
        assert len(light.marks) == len(routes)
        light.forget_places(depth)
        assert ("no", "such") not in light.marks
        assert light.span("a", "no", "such") == whole.span("a", "no", "such")
        light.forget_places(depth)
        assert list(light.marks) == routes


@pytest.fixture
def again(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that are read again."""
    paths: list[str] = []
    real = source._marks

    def marks(path: str, data: bytes, index: int) -> source.Marks:
        paths.append(path)
        return real(path, data, index)

    monkeypatch.setattr(source, "_marks", marks)
    return paths


def compiled(root: Path) -> Sink:
    sink = Sink()
    compilation = compile_policy(load_policy(locate([root]), sink), sink)
    run_rules(compilation, sink)
    return sink


def test_a_policy_without_mistakes_reads_nothing_again(tmp_path: Path, again: list[str]) -> None:
    assert not compiled(write_fleet(tmp_path, 20)).has_errors
    assert again == []


def test_a_place_inside_node_facts_reads_its_file_again(tmp_path: Path, again: list[str]) -> None:
    root = write(tmp_path, {"nodes/b.yaml": BOX.replace("name: box", "name: b")})
    policy = load_policy(locate([root]), Sink())
    lines = BOX.splitlines()
    for node in policy.nodes:
        span = node.span("spec", "devices", 0, "bdf")
        assert lines[span.line - 1][span.col - 1 : span.end_col - 1] == '"0000:01:00.0"'
    assert again == ["nodes/b.yaml", "nodes/box.yaml"]
    assert node.key_span("spec", "kernel", "btf").line == span.line + 7
    assert len(again) == 2
