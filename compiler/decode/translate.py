"""What pydantic found, said in our words at the right place."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final

from pydantic import ValidationError

from compiler.codes.language import (
    CONTRADICTION,
    EMPTY_VALUE,
    INVALID_VALUE,
    MALFORMED_TEXT,
    MISSING_KEY,
    OUT_OF_RANGE,
    UNKNOWN_KEY,
    UNKNOWN_WORD,
    WRONG_TYPE,
)
from compiler.decode.forms import FORMS, TIER_PLACES, TIERS, VALUES, repaired
from compiler.decode.hints import OTHER_WORDS, how_to_write
from compiler.decode.place import (
    Place,
    cut,
    existing,
    in_mapping,
    key_span_of,
    shown_span_of,
    subject_of,
    value_at,
)
from compiler.decode.shape import places_of_keys, shape_at
from compiler.diagnostics import Diagnostic, Related
from compiler.model.base import Misfit, Model
from compiler.source import Data, Document, Route
from compiler.suggest import nearest

MAX_TRANSLATED: Final = 500
"""Findings of one document that are put into words; far more than are shown, so that those shown
are the first of the file."""

_NOUNS: Final = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "mapping_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}
_CPU_RANGE: Final = re.compile(r"[0-9][0-9:/-]*", re.ASCII)
_CPU_LIST: Final = re.compile(r"[0-9][0-9:/,\s-]*", re.ASCII)
_QUOTE_LIST: Final = "a comma ends a value inside braces; put the whole list in quotes"
_BOUNDS: Final = ("greater_than_equal", "less_than_equal")
_LENGTHS: Final = ("too_short", "too_long")
_TEXT_LENGTHS: Final = ("string_too_short", "string_too_long")


def findings_of(
    doc: Document, model: type[Model], error: ValidationError | None
) -> list[Diagnostic]:
    """Return the findings of decoding ``doc`` as ``model``; ``error`` None: it was accepted.

    Values left empty are reported even where the model takes null for "not given".
    """
    empty = set(islice(_empty_values(doc, model), MAX_TRANSLATED))
    found = [_empty(doc, route) for route in empty]
    if error is not None:
        rows = error.errors(include_url=False, include_input=False)
        guessed: set[Route] = set()
        rows.sort(key=lambda row: row["type"] == "missing")  # guesses first
        for row in rows[:MAX_TRANSLATED]:
            place = Place(doc, model, row["loc"])
            if place.route in empty:
                continue
            if row["type"] in _LENGTHS and not _is_misfit_length(place):
                continue  # pydantic counts only the items that are right
            if _is_bare_misfit(row) and any(route[:-1] == place.route for route in empty):
                continue
            if row["type"] == "extra_forbidden":
                diagnostic, meant = _unknown_key(place)
                if meant is not None:
                    guessed.add((*place.parent, meant))
            elif row["type"] == "missing":
                if (*place.parent, row["loc"][-1]) in guessed:
                    continue
                diagnostic = _missing(place, str(row["loc"][-1]))
            else:
                diagnostic = _translate(place, row)
            found.append(diagnostic)
    return list(dict.fromkeys(found))


def _translate(place: Place, row: Any) -> Diagnostic:
    kind, context = row["type"], row.get("ctx", {})
    if kind in _NOUNS or (kind == "literal_error" and not isinstance(place.value, str)):
        return _wrong_type(place, _NOUNS.get(kind))
    if kind == "literal_error":
        return _unknown_word(place)
    if kind == "string_pattern_mismatch":
        return _malformed(place, context["pattern"])
    if kind in _TEXT_LENGTHS:
        return _text_length(place)
    if kind in _BOUNDS:
        return _out_of_bounds(place)
    if kind in _LENGTHS:
        return _length(place)
    cause = context.get("error")
    if kind == "value_error" and isinstance(cause, Misfit):
        return _misfit(place, cause)
    if kind == "value_error" and isinstance(cause, ValueError):
        value = place.value
        code = CONTRADICTION if isinstance(value, dict) else INVALID_VALUE
        return code.at(place.span, str(cause))
    form = VALUES.get(place.shape.field or ("", ""))
    return WRONG_TYPE.at(
        place.span,
        f"{place.subject} cannot be {_quoted(place)}",
        help=f"write {form}" if form else "",
    )


def _unknown_key(place: Place) -> tuple[Diagnostic, str | None]:
    key = str(place.location[-1])
    above = shape_at(place.model, place.location[:-1])
    given = value_at(place.doc.data, place.parent)
    keys = above.keys()
    unused = [name for name in keys if not isinstance(given, dict) or name not in given]
    meant = _same_letters(key, unused) or next(iter(nearest(key, unused)), None)
    meant = next(
        (OTHER_WORDS[one, key] for one in above.models() if (one, key) in OTHER_WORDS), meant
    )
    where = in_mapping(place.parent)
    message = f"unknown key `{cut(key)}`{where}"
    elsewhere = places_of_keys(place.model).get(key, ())
    if _CPU_RANGE.fullmatch(key) and isinstance(given, dict) and given.get(key) is None:
        how = _QUOTE_LIST
    elif meant is not None and not elsewhere:
        how = f"did you mean `{meant}`?"
    elif elsewhere:
        how = f"`{key}` belongs at {_listed(elsewhere)}"
        how = f"did you mean `{meant}`? {how}" if meant is not None else how
    elif keys:
        how = f"keys here are {', '.join(keys)}"
    else:
        how = "no keys are known here; remove it"
    return UNKNOWN_KEY.at(place.doc.key_span(*place.route), message, help=how), meant


def _missing(place: Place, key: str) -> Diagnostic:
    shape = place.shape
    about = shape_at(place.model, place.location[:-1]).about(key)
    about = about.split(". ")[0].strip().rstrip(".")
    about = " ".join(about.split())
    if not about and (keys := shape.keys()):
        about = f"a mapping; its keys are {', '.join(keys)}"
    elif not about and (words := shape.words()):
        about = f"one of {', '.join(words)}"
    return MISSING_KEY.at(
        key_span_of(place.doc, place.parent),
        f"`{key}` is missing{in_mapping(place.parent)}",
        help=f"add `{key}`: {about[:1].lower()}{about[1:]}" if about else f"add `{key}: ...`",
    )


def _wrong_type(place: Place, noun: str | None) -> Diagnostic:
    shape, value = place.shape, place.value
    usual = TIER_PLACES.get(shape.field or ("", ""))
    if usual is not None and not (isinstance(value, tuple) and len(value) == 1):
        return WRONG_TYPE.at(
            place.span,
            f"{place.subject} takes the name of a tier, not {_quoted(place)}",
            help=f"write {usual}; tiers are {', '.join(TIERS)}, or those of your TierLadder",
        )
    if (form := VALUES.get(shape.field or ("", ""))) is not None:
        wanted = form
    elif noun is not None:
        wanted = noun
    elif words := shape.words():
        wanted = words[0] if len(words) == 1 else f"one of {', '.join(words)}"
    else:
        wanted = "something else"
    message = f"{place.subject} must be {wanted}, not {_quoted(place)}"
    return WRONG_TYPE.at(place.span, message, help=how_to_write(place, noun))


def _unknown_word(place: Place) -> Diagnostic:
    words = place.shape.words()
    value = str(place.value)
    form = VALUES.get(place.shape.field or ("", ""))
    meant = _same_letters(value, words) or next(iter(nearest(value, words)), None)
    if len(words) == 1 and form is None:
        keys = place.shape.keys()
        how = f"write {words[0]}" + (f", or a mapping of {' or '.join(keys)}" if keys else "")
    else:
        how = f"write {form}" if form is not None else f"words are {', '.join(words)}"
        if place.shape.field == ("Lane", "cores"):
            if value.isdecimal() and value.isascii() and len(value) < 5:
                how = f"write {int(value)}, without quotes"
            elif _CPU_LIST.fullmatch(value):
                how = f"an intent says how many cores, never which CPUs; {how}"
    if meant is not None and len(words) > 1:
        how = f"did you mean `{meant}`? {how}"
    message = f"{place.subject} cannot be `{cut(value)}`"
    if place.is_key:
        message = f"unknown key `{cut(value)}`{in_mapping(place.parent)}"
        return UNKNOWN_KEY.at(place.span, message, help=how.replace("words are", "keys here are"))
    return UNKNOWN_WORD.at(place.span, message, help=how)


def _malformed(place: Place, pattern: str) -> Diagnostic:
    form, text = FORMS[pattern], str(place.value)
    message = f"`{cut(text)}` is not {form.what}"
    better = repaired(pattern, text)
    how = f"{form.what} is {form.allowed}; "
    if form.exact and re.search(r"[*?]", text):
        how = f"{form.what} has no wildcards; list the names, or give the nodes a label they share"
    else:
        how += f"write {better}" if better is not None else f"for example {form.example}"
    return MALFORMED_TEXT.at(place.span, message, help=how)


def _text_length(place: Place) -> Diagnostic:
    least, most = place.shape.lengths()
    size = len(str(place.value))
    if least is not None and size < least:
        return MALFORMED_TEXT.at(place.span, f"{place.subject} is empty", help="write a text")
    return MALFORMED_TEXT.at(
        place.span, f"{place.subject} has {size} characters; at most {most} are allowed"
    )


def _out_of_bounds(place: Place) -> Diagnostic:
    low, high = place.shape.bounds()
    value = place.value
    assert isinstance(value, int | float)
    message = f"{place.subject} is {place.written}"
    if low is not None and value < low:
        message += f"; it must be at least {low}"
    elif high is not None:
        message += f"; it must be at most {high}"
    both = low is not None and high is not None
    return OUT_OF_RANGE.at(
        place.span, message, help=f"write a number from {low} to {high}" if both else ""
    )


def _length(place: Place) -> Diagnostic:
    low, high = place.shape.lengths()
    value = place.value
    size = len(value) if isinstance(value, tuple | dict) else 0
    if size == 0:
        return OUT_OF_RANGE.at(
            place.span,
            f"{place.subject} is an empty list",
            help=f"give at least {low} item, or leave the key out",
        )
    limit = f"at least {low}" if low is not None and size < low else f"at most {high}"
    return OUT_OF_RANGE.at(place.span, f"{place.subject} has {size} items; {limit} are allowed")


def _is_misfit_length(place: Place) -> bool:
    low, high = place.shape.lengths()
    value = place.value
    size = len(value) if isinstance(value, tuple | dict) else 0
    return (low is not None and size < low) or (high is not None and size > high)


def _is_bare_misfit(row: Any) -> bool:
    """Whether a mapping lacks what its keys should say, rather than contradicts itself."""
    cause = row.get("ctx", {}).get("error")
    return isinstance(cause, Misfit) and not cause.routes


def _misfit(place: Place, cause: Misfit) -> Diagnostic:
    routes = [existing(place.doc.data, (*place.route, *route)) for route in cause.routes]
    spots = sorted(
        {(shown_span_of(place.doc, route), route) for route in routes},
        key=lambda spot: (spot[0], len(spot[1])),
    )
    if not spots:
        return CONTRADICTION.at(key_span_of(place.doc, place.route), str(cause))
    *others, (primary, _) = spots
    return CONTRADICTION.at(
        primary,
        str(cause),
        related=[Related(span, f"{subject_of(route)} is here") for span, route in others],
    )


def _empty(doc: Document, route: Route) -> Diagnostic:
    what = subject_of(route)
    how = f"give {what} a value, or remove it"
    if isinstance(route[-1], str) and _CPU_RANGE.fullmatch(route[-1]):
        how = _QUOTE_LIST
    return EMPTY_VALUE.at(doc.key_span(*route), f"{what} has no value", help=how)


def _empty_values(doc: Document, model: type[Model]) -> Iterator[Route]:
    """Yield the routes of null values, where null has no meaning of its own.

    In facts it means unknown, save in what an operator overrides: an empty ``allowed:`` must not
    become every CPU.  A target without options may be written ``bpf:``.
    """
    facts = model.__name__ == "NodeFacts"
    stack: list[tuple[Route, Data]] = [((), doc.data)]
    while stack:
        route, value = stack.pop()
        if value is None:
            known = (
                route[:2] == ("spec", "overrides") if facts else route[:-1] != ("spec", "targets")
            )
            if known:
                yield route
        elif isinstance(value, dict):
            stack += [((*route, key), item) for key, item in reversed(value.items())]
        elif isinstance(value, tuple):
            stack += [((*route, index), item) for index, item in reversed([*enumerate(value)])]


def _quoted(place: Place) -> str:
    value = place.value
    if value is None or isinstance(value, dict | tuple):
        return place.written
    return f"`{cut(place.written)}`"


def _listed(places: Sequence[str]) -> str:
    shown = [f"`{place}`" for place in places[:3]]
    return ", ".join(shown) + (" and other places" if len(places) > 3 else "")


def _same_letters(word: str, candidates: Sequence[str]) -> str | None:
    """Return the candidate that differs only in case, hyphens and underscores."""
    folded = _fold(word)
    return next((name for name in candidates if _fold(name) == folded), None)


def _fold(word: str) -> str:
    return word.replace("-", "").replace("_", "").casefold()
