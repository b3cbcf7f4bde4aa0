"""The same input gives the same bytes: everywhere, every time."""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compiler.pipeline import emit
from tests.conftest import ROOT
from tests.examples import read_tree
from tests.policies import BOX, compiled, intent, write

ENVIRONMENTS = (
    {"PYTHONHASHSEED": "0", "LC_ALL": "C", "TZ": "UTC"},
    {"PYTHONHASHSEED": "1", "LC_ALL": "C.UTF-8", "TZ": "Asia/Tokyo"},
    {"PYTHONHASHSEED": "7", "LC_ALL": "POSIX", "TZ": "America/St_Johns", "USER": "x", "HOME": "/"},
)


@pytest.mark.parametrize("index", range(len(ENVIRONMENTS)))
def test_bytes_do_not_depend_on_the_surroundings(index: int, tmp_path: Path) -> None:
    kept = read_tree(ROOT / "tests/golden/dgx-spark/tree")
    repository = tmp_path / "somewhere else" / "policy"
    shutil.copytree(ROOT / "examples/dgx-spark", repository)
    umask = (0o022, 0o077, 0o000)[index]
    done = subprocess.run(
        [sys.executable, "-m", "compiler", "build", ".", "-o", str(tmp_path / "out")],
        cwd=repository,
        env={**os.environ, **ENVIRONMENTS[index], "PYTHONPATH": str(ROOT)},
        umask=umask,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert read_tree(tmp_path / "out") == kept


def test_nothing_in_the_tree_tells_where_or_when_it_was_built() -> None:
    for path, data in read_tree(ROOT / "tests/golden/dgx-spark/tree").items():
        for word in (str(ROOT), "/home/"):
            assert word.encode() not in data, (path, word)
        host = os.uname().nodename  # may be as short as "vm", which is a part of other words
        assert not re.search(rf"(?<![\w-]){re.escape(host)}(?![\w-])".encode(), data), (path, host)


DOCUMENTS = (
    intent("one", 'workload: {match: [{comm: "a*"}, {comm: b}]}\nprotect: all\nlane: {cores: 2}'),
    intent("two", 'workload: {match: [{comm: "ab*"}]}\nkeep: interactive'),
    intent("three", "workload: {group: batch}\ndemote: background\nprefer: [leftovers]"),
    intent(
        "four",
        'workload: {engine: sglang, version: "0.5.2"}\n'
        "protect: decode\n"
        "lane: {cores: {min: 1, max: 3}}",
    ),
    intent("five", "workload: {group: node-infra}\nkeep: system"),
    BOX,
    BOX.replace("name: box, labels: {pool: small}", "name: box-b"),
)
COMMENTS = ("# a remark\n", "\n", "   # indented\n\n", "")


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    order=st.permutations(range(len(DOCUMENTS))),
    cuts=st.lists(st.booleans(), min_size=len(DOCUMENTS), max_size=len(DOCUMENTS)),
    names=st.randoms(use_true_random=False),
    crlf=st.booleans(),
    bom=st.booleans(),
)
def test_order_of_files_and_documents_and_comments_change_nothing(
    tmp_path_factory: pytest.TempPathFactory,
    order: list[int],
    cuts: list[bool],
    names: random.Random,
    crlf: bool,
    bom: bool,
) -> None:
    files: dict[str, str] = {}
    current: list[str] = []
    for position, cut in zip(order, cuts, strict=True):
        remark = names.choice(COMMENTS)
        text = DOCUMENTS[position]
        lines = [line + names.choice(["", "  # remark"]) for line in text.splitlines()]
        current.append(remark + "\n".join(lines) + "\n")
        if cut:
            files[f"intents/{names.randrange(10**9)}-{len(files)}.yaml"] = "---\n".join(current)
            current = []
    if current:
        files["intents/last.yaml"] = "---\n".join(current)
    if crlf:
        files = {name: text.replace("\n", "\r\n") for name, text in files.items()}
    if bom:
        files = {name: "\ufeff" + text for name, text in files.items()}
    root = tmp_path_factory.mktemp("p")
    compilation, findings = compiled(write(root, {**files, "nodes/box.yaml": "# empty\n"}))
    assert not [f for f in findings if f.severity.label == "error"]
    got = {a.path: (a.data, a.mode) for a in emit(compilation)}

    plain = tmp_path_factory.mktemp("plain")
    straight, _ = compiled(
        write(plain, {"intents/all.yaml": "---\n".join(DOCUMENTS), "nodes/box.yaml": "# empty\n"})
    )
    assert got == {a.path: (a.data, a.mode) for a in emit(straight)}
