"""What the fields of models mean: the texts below them in the source.

They are read when one is wanted, for a schema or a missing key: finding them takes longer than
most commands, so pydantic is not told to do it for every class (``use_attribute_docstrings``).
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Mapping
from functools import cache

from compiler.model.base import Model


@cache
def descriptions(model: type[Model]) -> Mapping[str, str]:
    """Return the descriptions of a model's fields by name; fields without one are left out.

    A description given to ``Field`` counts before the text below the field.  An installation
    without sources has no such texts.
    """
    found: dict[str, str] = {}
    for cls in reversed(model.__mro__):
        if issubclass(cls, Model):
            for name, text in _texts(cls.__module__).get(cls.__name__, {}).items():
                found[name] = text
    given = {name: info.description for name, info in model.model_fields.items()}
    chosen = {name: text or found.get(name, "") for name, text in given.items()}
    return {name: text for name, text in chosen.items() if text}


@cache
def _texts(module: str) -> Mapping[str, Mapping[str, str]]:
    """Return the text below each annotated name, empty without one, by class of the module."""
    try:
        tree = ast.parse(inspect.getsource(sys.modules[module]))
    except OSError:
        return {}
    return {node.name: _below(node) for node in tree.body if isinstance(node, ast.ClassDef)}


def _below(cls: ast.ClassDef) -> Mapping[str, str]:
    texts: dict[str, str] = {}
    for node, after in zip(cls.body, [*cls.body[1:], None], strict=True):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            texts[node.target.id] = ""
            if (
                isinstance(after, ast.Expr)
                and isinstance(after.value, ast.Constant)
                and isinstance(after.value.value, str)
            ):
                texts[node.target.id] = inspect.cleandoc(after.value.value)
    return texts
