"""JSON Schemas of the kinds a user may write, for editors and other tools.

``tierc schemas DIR`` writes one file a kind; ``make schemas`` calls it.  A schema
says less than the models: it knows keys, types, words and forms, but not which keys exclude each
other, and patterns only as text.  What it refuses, decoding refuses too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from pydantic.json_schema import GenerateJsonSchema

from compiler.decode import KINDS
from compiler.model.described import descriptions

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

_NULL: Final = {"type": "null"}
_NULL_HAS_A_MEANING: Final = {"NodeFacts": "unknown", "Targets": "no options"}
"""Kinds and definitions in which an empty value is accepted; elsewhere it is refused."""


def generate() -> Mapping[str, bytes]:
    """Return the schema of each kind, by name; the same bytes every time."""
    return {kind: _schema(kind) for kind in sorted(KINDS)}


def packaged_schema(kind: str) -> bytes:
    """Return the committed schema of a kind: the wheel's copy, or the checkout's.

    Raises:
        KeyError: ``kind`` is none a user may write.
        FileNotFoundError: the installation has no schemas.
    """
    if kind not in KINDS:
        raise KeyError(kind)
    package = files("compiler")
    packaged = package.joinpath("_schemas", f"{kind}.json")
    if packaged.is_file():
        return packaged.read_bytes()
    checkout = Path(__file__).resolve().parent.parent / "schemas" / f"{kind}.json"
    return checkout.read_bytes()


def _schema(kind: str) -> bytes:
    raw = KINDS[kind].model_json_schema(
        by_alias=True, mode="validation", schema_generator=_Generator
    )
    definitions = {
        name: _tidy(schema, keep_null=kind in _NULL_HAS_A_MEANING or name in _NULL_HAS_A_MEANING)
        for name, schema in sorted(raw.pop("$defs", {}).items())
    }
    body = _tidy(raw, keep_null=kind in _NULL_HAS_A_MEANING)
    schema = {"$schema": DIALECT, "title": kind, **body, "$defs": definitions}
    return (json.dumps(schema, indent=2, ensure_ascii=True) + "\n").encode("ascii")


class _Generator(GenerateJsonSchema):
    """pydantic's generator, with our descriptions and without the titles it makes of names."""

    def model_schema(self, schema: Any) -> Any:
        result = super().model_schema(schema)
        fields = schema["cls"].model_fields
        for name, text in descriptions(schema["cls"]).items():
            result["properties"][fields[name].alias or name]["description"] = text
        return result

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def get_title_from_name(self, name: str) -> str:
        return name


def _tidy(value: Any, *, keep_null: bool) -> Any:
    """Return a schema without nulls that decoding refuses, and with plain descriptions."""
    if isinstance(value, list):
        return [_tidy(item, keep_null=keep_null) for item in value]
    if not isinstance(value, dict):
        return value
    result = {key: _tidy(item, keep_null=keep_null) for key, item in value.items()}
    if "patternProperties" in result:  # keys of another form are refused, not ignored
        result.setdefault("additionalProperties", False)
    if result.get("default", ...) is None:
        del result["default"]
    if isinstance(text := result.get("description"), str):
        result["description"] = _plain(text)
    choices = result.get("anyOf")
    if isinstance(choices, list) and _NULL in choices and not keep_null:
        rest = [choice for choice in choices if choice != _NULL]
        if len(rest) == 1:
            del result["anyOf"]
            result = {**rest[0], **result}
        else:
            result["anyOf"] = rest
    return result


def _plain(text: str) -> str:
    """Return a docstring as running text: editors show line breaks and doubled backticks."""
    return " ".join(text.replace("``", "`").split())
