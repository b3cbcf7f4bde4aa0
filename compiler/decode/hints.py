"""How to write a value that has the wrong type: what the user probably meant, in the right form."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, get_args

from compiler.decode.forms import VALUES
from compiler.decode.place import Place, cut
from compiler.decode.shape import shape_at
from compiler.model.intent import GroupName
from compiler.source import Data

_DIGITS: Final = 18
"""Decimal digits that certainly fit into 64 bits."""
_PERCENT: Final = re.compile(r"([0-9]{1,3})\s*%", re.ASCII)
_LABEL: Final = re.compile(
    r"([A-Za-z0-9][A-Za-z0-9._/-]*)==?([A-Za-z0-9][A-Za-z0-9._-]*)", re.ASCII
)
_WORD: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?", re.ASCII)
OTHER_WORDS: Final[Mapping[tuple[str, str], str]] = {
    ("Match", "name"): "comm",
    ("Match", "thread"): "comm",
    ("Match", "process"): "leaderComm",
    ("Match", "command"): "cmdline",
    ("Match", "args"): "cmdline",
    ("Match", "slice"): "cgroup",
    ("Match", "unit"): "cgroup",
    ("Lane", "cpus"): "cores",
    ("Lane", "size"): "cores",
}
"""What other tools call a key, by model: the key here."""

_NUMBERS: Final = ("a whole number", "a number")


def how_to_write(place: Place, noun: str | None) -> str:
    """Return the help for a value that should be a ``noun``; empty where the message says it."""
    value = place.value
    if place.shape.field in VALUES:
        return ""
    if noun == "text":
        return _text(place, value)
    if noun == "a list":
        return _list(place, value)
    if noun == "a mapping":
        return _mapping(place, value)
    if noun in _NUMBERS:
        return _number(place, noun, value)
    if noun == "true or false" and isinstance(value, str):
        bare = value.strip().lower()
        return f"write {bare}, without quotes" if bare in ("true", "false") else ""
    return ""


def _text(place: Place, value: Data) -> str:
    if _is_scalar(value):
        return f'write "{place.written}"'
    if isinstance(value, tuple) and len(value) == 1 and isinstance(value[0], str):
        return f"write {value[0]}, without brackets or dash"
    field = place.shape.field or ("", "")
    if isinstance(value, tuple) and field[0] == "Match":
        return f"write an item of match for each, such as [{{{field[1]}: a}}, {{{field[1]}: b}}]"
    return ""


def _list(place: Place, value: Data) -> str:
    if _is_scalar(value) and _plain(place.written):
        key = _ITEM_KEYS.get(place.shape.field or ("", ""))
        item = _item(place, key, (*place.location, 0, key)) if key else place.written
        return f"write [{item}]"
    return "put a dash before each item, or brackets around all of them"


def _item(place: Place, key: str, location: tuple[str | int, ...]) -> str:
    """Return the item of which only the value of one key is written."""
    words = shape_at(place.model, location).words()
    word = place.written if not words or place.value in words else str(words[0])
    if not words and word == place.value and not _is_word(word):
        word = f'"{word}"'
    return f"{{{key}: {word}}}"


def _mapping(place: Place, value: Data) -> str:
    field = place.shape.field or ("", "")
    above = shape_at(place.model, place.location[:-1]).field or ("", "")
    key = _ITEM_KEYS.get(above) if isinstance(place.location[-1], int) else None
    if key is not None and isinstance(value, str) and _plain(place.written):
        return f"write {_item(place, key, (*place.location, key))}"
    words = value if isinstance(value, tuple) else (value,)
    keys = place.shape.keys()
    texts = [word for word in words if isinstance(word, str)]
    if texts and len(texts) == len(words) and (form := _form(place, field, texts, [*keys])):
        return f"write {cut(form)}"
    if isinstance(value, tuple) and field in _LIST_KEYS:
        return f"put it under `{_LIST_KEYS[field]}`"
    if field[0] == "Targets" and not keys:
        return "write {}: it has no options"
    return f"its keys are {', '.join(keys)}" if keys else "write key: value pairs"


def _form(place: Place, field: tuple[str, str], texts: list[str], keys: list[str]) -> str:
    """Return a mapping that says what a word or a list of words here can only mean."""
    labels = [match for text in texts if (match := _LABEL.fullmatch(text.strip()))]
    if len(labels) == len(texts) and len({match[1] for match in labels}) == len(texts):
        row = ", ".join(f"{match[1]}: {match[2]}" for match in labels)
        if "matchLabels" in keys:
            return f"{{matchLabels: {{{row}}}}}"
        return f"{{{row}}}" if not keys else ""
    if not all(_is_word(text) for text in texts):
        return ""
    if field[1] == "metadata" and len(texts) == 1:
        return f"{{name: {texts[0]}}}"
    make = _FORMS.get(field)
    return make(texts, keys, isinstance(place.value, tuple)) if make is not None else ""


def _names(texts: list[str], keys: list[str], listed: bool) -> str:
    return f"{{names: [{', '.join(texts)}]}}"


def _workload(texts: list[str], keys: list[str], listed: bool) -> str:
    kind = "group" if texts[0] in get_args(GroupName) else "engine"
    return "" if listed else f"{{{kind}: {texts[0]}}}"


def _lane(texts: list[str], keys: list[str], listed: bool) -> str:
    return "" if listed else f"{{name: {texts[0]}}}"


def _targets(texts: list[str], keys: list[str], listed: bool) -> str:
    known = len(set(texts)) == len(texts) and set(texts) <= set(keys)
    return "{" + ", ".join(f"{text}: {{}}" for text in texts) + "}" if known else ""


_ITEM_KEYS: Final[Mapping[tuple[str, str], str]] = {
    ("ProjectSpec", "enforce"): "mode",
    ("Workload", "match"): "comm",
}
"""Lists of mappings, by model and key: the key a bare word in place of an item is the value of."""

_LIST_KEYS: Final[Mapping[tuple[str, str], str]] = {
    ("ProjectSpec", "rollout"): "steps",
    ("IntentSpec", "workload"): "match",
}
"""Mappings, by model and key: where in them a list belongs that is written in their place."""

_FORMS: Final[Mapping[tuple[str, str], Callable[[list[str], list[str], bool], str]]] = {
    ("IntentSpec", "nodes"): _names,
    ("DemandSpec", "nodes"): _names,
    ("Enforce", "nodes"): _names,
    ("IntentSpec", "workload"): _workload,
    ("IntentSpec", "lane"): _lane,
    ("ProjectSpec", "targets"): _targets,
}
"""Mappings, by model and key: what words in their place mean."""


_PARTS: Final[Mapping[tuple[str, str], int]] = {
    ("RolloutStep", "percent"): 100,
    ("Tier", "share"): 1000,
}
"""Numbers that are parts of something, by model and key: how many parts the whole has."""


def _number(place: Place, noun: str, value: Data) -> str:
    low, high = place.shape.bounds()
    between = f" from {low:g} to {high:g}" if low is not None and high is not None else ""
    if isinstance(value, str):
        bare = value.strip()
        if bare.isdecimal() and bare.isascii():
            if len(bare) > _DIGITS or (high is not None and int(bare) > high):
                return "write a smaller number, without quotes" + (between and f",{between}")
            return f"write {int(bare)}, without quotes"
        parts = _PARTS.get(place.shape.field or ("", ""))
        if parts is not None and (match := _PERCENT.fullmatch(bare)):
            meant = int(match[1]) * parts // 100
            if (low is None or low <= meant) and (high is None or meant <= high):
                return f"write {meant}" + (": it counts thousandths" if parts == 1000 else "")
    return f"write {noun}{between}" if between else ""


def _is_scalar(value: Data) -> bool:
    return not isinstance(value, dict | tuple) and value is not None


def _is_word(value: Data) -> bool:
    return isinstance(value, str) and _WORD.fullmatch(value) is not None


def _plain(text: str) -> bool:
    return "," not in text and "\n" not in text
