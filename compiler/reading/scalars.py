"""Values without quotes: what all YAML readers agree on, and what they do not.

Taken are ``null``, ``~`` and nothing; ``true`` and ``false``; decimal integers and fractions
without sign ``+``, leading zeros or exponent.  A text that any common reader takes for something
else than a text is reported: the types of YAML 1.1 (yaml.org/type), the core schema of YAML 1.2.2
(section 10.3.2), and what the usual libraries make of them.  A bare ``y`` or ``n`` is a boolean
by the letter of YAML 1.1 but a text to the common libraries, so it is a text here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import isfinite
from typing import Final

from compiler.reading.document import Scalar

INT_MIN: Final = -(2**63)
INT_MAX: Final = 2**63 - 1
_MAX_DIGITS: Final = 20

_PLAIN: Final[dict[str, Scalar]] = {
    "": None,
    "~": None,
    "null": None,
    "true": True,
    "false": False,
}
_INT: Final = re.compile(r"0|-?[1-9][0-9]*")
_FLOAT: Final = re.compile(r"-?(?:0|[1-9][0-9]*)\.[0-9]+")

# Only these spellings are booleans or null to a reader; `tRUE` is a text to all of them.
_WORDS: Final = {
    spelling: word
    for word in ("true", "false", "null", "yes", "no", "on", "off")
    for spelling in (word, word.capitalize(), word.upper())
    if spelling not in _PLAIN
}
_MEANT: Final = {"yes": "true", "on": "true", "no": "false", "off": "false"}

_OCTAL_11: Final = re.compile(r"[-+]?0[0-7_]+")
_OCTAL_12: Final = re.compile(r"[-+]?0[oO][0-7_]+")
_BINARY: Final = re.compile(r"[-+]?0[bB][01_]+")
_HEX: Final = re.compile(r"[-+]?0[xX][0-9a-fA-F_]+")
_SIXTY: Final = re.compile(
    r"[-+]?(?:[1-9][0-9_]*(?::[0-5]?[0-9])+|[0-9][0-9_]*(?::[0-5]?[0-9])+\.[0-9_]*)"
)
_NUMBER: Final = re.compile(
    r"[-+]?(?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9_]+|(?<=[-+])_[0-9_]*)(?:[eE][-+]?[0-9]+)?"
)
_NOT_FINITE: Final = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_DATE: Final = re.compile(
    r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}"
    r"(?:(?:[Tt]|[ \t]+)[0-9]{1,2}:[0-9]{1,2}:[0-9]{1,2}(?:\.[0-9]*)?"
    r"(?:[ \t]*(?:Z|[-+][0-9]{1,2}(?::?[0-9]{2})?))?)?"
)

# A scalar that starts otherwise is none of the above.
_FIRST: Final = frozenset("0123456789+-.~=<nNtTfFyYoO")


@dataclass(frozen=True, slots=True)
class Doubt:
    """Why a value without quotes is not accepted.

    Attributes:
        message: what readers make of it.
        help: how to write it.
        too_large: whether it is a number that does not fit, and not an ambiguous one.
    """

    message: str
    help: str
    too_large: bool = False


def resolve(text: str) -> tuple[Scalar, Doubt | None]:
    """Return what a scalar without quotes stands for, and what is wrong with it.

    With a doubt the value is the text itself.
    """
    if text and text[0] not in _FIRST:
        return text, None
    if text in _PLAIN:
        return _PLAIN[text], None
    if text and text[0].isalpha():  # no number: they begin with a digit, a sign or a point
        return text, _doubt(text)
    if _INT.fullmatch(text):
        value = int(text) if len(text) <= _MAX_DIGITS else None
        if value is None or not INT_MIN <= value <= INT_MAX:
            return text, _too_large(text)
        return value, None
    if _FLOAT.fullmatch(text):
        number = float(text)
        return (number, None) if isfinite(number) else (text, _too_large(text))
    return text, _doubt(text)


def shorten(text: str, limit: int = 40) -> str:
    """Return a text cut to ``limit`` characters, with ``...`` where something was cut."""
    return text if len(text) <= limit else text[: limit - 3] + "..."


def _doubt(text: str) -> Doubt | None:
    if text[0].isalpha() and text not in _WORDS:
        return None  # most values end here
    if (word := _WORDS.get(text)) is not None:
        if (meant := _MEANT.get(word)) is not None:
            return _two_ways(text, meant, "a text", meant)
        kind = "null" if word == "null" else f"the boolean {word}"
        return Doubt(
            f"`{text}` is {kind} to some YAML readers and a text to others",
            f'write {word}, or "{text}" if the text is meant',
        )
    if text in ("=", "<<"):
        return Doubt(
            f"`{text}` without quotes has a special meaning to YAML 1.1 readers",
            f'write "{text}"',
        )
    for pattern, explain in (
        (_OCTAL_11, _octal),
        (_OCTAL_12, lambda t: _based(t, 8, "a text", None)),
        (_BINARY, lambda t: _based(t, 2, None, "a text")),
        (_HEX, lambda t: _based(t, 16, None, None)),
        (_SIXTY, _sixty),
        (_NUMBER, _number),
    ):
        if pattern.fullmatch(text):
            return explain(text)
    if _NOT_FINITE.fullmatch(text):
        return Doubt(
            f"`{text}` is not a finite number to YAML readers",
            f'write "{text}" if the text is meant, or a number',
        )
    if _DATE.fullmatch(text):
        return Doubt(
            f"`{shorten(text)}` is a date to YAML 1.1 readers and a text to YAML 1.2 readers",
            f'write "{shorten(text)}"',
        )
    return None


def _two_ways(text: str, old: str, new: str, number: str | None) -> Doubt:
    shown = shorten(text)
    otherwise = f"; write {number} if that is meant" if number is not None else ""
    return Doubt(
        f"`{shown}` is {old} to YAML 1.1 readers and {new} to YAML 1.2 readers",
        f'write "{shown}" if the text is meant{otherwise}',
    )


def _octal(text: str) -> Doubt:
    digits = text.replace("_", "")
    if len(digits) > _MAX_DIGITS or not digits.strip("+-"):
        return _some(text)
    old, new = str(_signed(digits, 8)), str(_signed(digits, 10))
    if "_" in text:
        return _two_ways(text, old, "a text", old)
    if old == new:
        return _some(text, old)
    doubt = _two_ways(text, old, new, None)
    return Doubt(doubt.message, f"{doubt.help}; write {old} or {new} if a number is meant")


def _based(text: str, base: int, old: str | None, new: str | None) -> Doubt:
    digits = text.replace("_", "").lower()
    sign = -1 if digits[0] == "-" else 1
    digits = digits.lstrip("+-")[2:]
    if not digits or len(digits) > 64:
        return _some(text)
    number = str(sign * int(digits, base))
    if old is None and new is None:
        return _some(text, number)
    return _two_ways(text, old or number, new or number, number)


def _sixty(text: str) -> Doubt:
    digits = text.replace("_", "")
    number: str | None = None
    if "." not in digits and len(digits) <= _MAX_DIGITS:
        total = 0
        for part in digits.lstrip("+-").split(":"):
            total = total * 60 + int(part)
        number = str(-total if digits[0] == "-" else total)
    return _two_ways(text, number or "a number in base 60", "a text", number)


def _number(text: str) -> Doubt:
    """Explain a number that is not written in the one form taken."""
    digits = text.replace("_", "")
    if len(text) > _MAX_DIGITS or re.search(r"^[-+]?\.?[0-9]", digits) is None:
        return _some(text)
    number = float(digits)
    if not isfinite(number):
        return _some(text)
    whole = number.is_integer() and abs(number) < 1e15
    plain = str(int(number)) if whole and "." not in digits else repr(number)
    if _INT.fullmatch(plain) is None and _FLOAT.fullmatch(plain) is None:
        plain = ""  # it has an exponent
    if "_" in text:
        return _two_ways(text, plain or "a number", "a text", plain or None)
    if re.fullmatch(r"0[0-9]+", text):
        return _two_ways(text, "a text", plain, plain)
    return _some(text, plain or None)


def _some(text: str, number: str | None = None) -> Doubt:
    shown = shorten(text)
    what = f"the number {number}" if number is not None else "a number"
    otherwise = f"; write {number} if the number is meant" if number is not None else ""
    return Doubt(
        f"`{shown}` is {what} to some YAML readers and a text to others",
        f'write "{shown}" if the text is meant{otherwise}',
    )


def _too_large(text: str) -> Doubt:
    return Doubt(
        f"the number {shorten(text)} does not fit into 64 bits",
        f'write a smaller number, or "{shorten(text)}" if the text is meant',
        too_large=True,
    )


def _signed(digits: str, base: int) -> int:
    value = int(digits.lstrip("+-"), base)
    return -value if digits[0] == "-" else value
