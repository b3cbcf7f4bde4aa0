"""The catalogue of findings: unique, documented, and every code really used."""

from __future__ import annotations

import re

from compiler.catalog import all_codes
from tests.conftest import ROOT

SOURCES = {path: path.read_text() for path in sorted((ROOT / "compiler").rglob("*.py"))}


def test_ids_are_well_formed_and_names_unique() -> None:
    codes = all_codes()
    assert all(re.fullmatch(r"TRC\d{3}", id) for id in codes)
    names = [code.name for code in codes.values()]
    assert sorted(set(names)) == sorted(names)
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name) for name in names)


def test_every_code_says_what_is_wrong_and_what_to_do() -> None:
    for code in all_codes().values():
        assert len(code.doc.split()) >= 10, code.id


def test_every_code_is_raised_somewhere() -> None:
    defined = re.compile(r"^(\w+)(?:: Final)? = Code\($", re.MULTILINE)
    for path, text in SOURCES.items():
        if path.parent.name != "codes":
            continue
        for constant in defined.findall(text):
            word = re.compile(rf"\b{constant}\b")
            users = [
                other for other, body in SOURCES.items() if other != path and word.search(body)
            ]
            assert users, f"{path.name}: {constant} is never raised"
