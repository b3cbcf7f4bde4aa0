"""Every finding code there is, for ``tierc rule``, severities and suppressions."""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from types import MappingProxyType

import compiler.codes
from compiler.diagnostics import Code
from compiler.rules import RULES


@cache
def all_codes() -> Mapping[str, Code]:
    """Return all codes by id, sorted.

    Raises:
        ValueError: two codes share an id, which a test excludes.
    """
    found: dict[str, Code] = {}
    modules = [
        import_module(f"compiler.codes.{info.name}")
        for info in pkgutil.iter_modules(compiler.codes.__path__)
    ]
    codes = [value for m in modules for value in vars(m).values() if isinstance(value, Code)]
    for code in (*codes, *(rule.code for rule in RULES)):
        if found.setdefault(code.id, code) is not code:
            raise ValueError(f"code {code.id} is used twice: {found[code.id].name}, {code.name}")
    return MappingProxyType(dict(sorted(found.items())))
