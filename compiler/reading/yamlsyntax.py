"""The C parser's complaints in plain words."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any, Final

from compiler.codes import reading as codes
from compiler.diagnostics import Code, Related, Span
from compiler.reading.characters import SourceText, describe, first_invisible
from compiler.reading.findings import Findings, StopReading
from compiler.reading.scalars import shorten

# The parser's words, ours, and what to do.
_PROBLEMS: Final = (
    (
        "mapping values are not allowed in this context",
        "a `:` cannot start a value here",
        "quote the text if the `: ` belongs to it; otherwise compare the indentation of this "
        "line with the lines above",
    ),
    (
        "did not find expected key",
        "a key is expected here",
        "compare the indentation of this line with the lines above; close quotes and brackets",
    ),
    (
        "did not find expected '-' indicator",
        "a list item (`- `) is expected here",
        "compare the indentation of this line with the items above",
    ),
    (
        "did not find expected ',' or ']'",
        "a `,` or the closing `]` of a list is expected here",
        "close the list, or quote an item that holds brackets, commas or `: `",
    ),
    (
        "did not find expected ',' or '}'",
        "a `,` or the closing `}` of a mapping is expected here",
        "close the mapping, or quote an item that holds brackets, commas or `: `",
    ),
    (
        "could not find expected ':'",
        "a key without `:` after it",
        "write `key: value`; if the line belongs to the text above, indent it",
    ),
    (
        "block sequence entries are not allowed in this context",
        "a list item (`- `) cannot stand here",
        "put the list on lines of its own below the key, or quote a text that starts with `- `",
    ),
    (
        "mapping keys are not allowed in this context",
        "a `?` cannot stand here",
        "quote a text that starts with `? `",
    ),
    (
        "block collection entries are not allowed in this context",
        "a list or mapping without brackets cannot stand here",
        "put it on lines of its own below the key",
    ),
    (
        "found unexpected end of stream",
        "a text in quotes is not closed",
        "close the quote",
    ),
    (
        "found unexpected document indicator",
        "a text in quotes is not closed before the end of the document",
        "close the quote",
    ),
    (
        "found unknown escape character",
        "an unknown escape in double quotes",
        "write a backslash as \\\\, or use single quotes",
    ),
    (
        "did not find expected hexdecimal number",
        "an escape in double quotes lacks hexadecimal digits",
        "write a backslash as \\\\, or use single quotes",
    ),
    (
        "found invalid Unicode character escape code",
        "an escape in double quotes stands for no character",
        "write a backslash as \\\\, or use single quotes",
    ),
    (
        "did not find expected <document start>",
        "something follows the end of a document",
        "compare the indentation of this line with the first one of the document, or put `---` on "
        "a line of its own before the next document",
    ),
    (
        "found undefined tag handle",
        "a tag that starts with `!` is not accepted",
        "quote a text that starts with `!`",
    ),
    (
        "did not find expected alphabetic or numeric character",
        "a name is expected behind `*` or `&`",
        'quote a text that starts with one of them, such as a glob: "*worker"',
    ),
    (
        "did not find expected comment or line break",
        "something follows the `|` or `>` that starts a text",
        "start the text on the next line, or quote a value that starts with `|` or `>`",
    ),
    (
        "did not find expected whitespace or line break",
        "a blank is missing here",
        "put a space or a line end here, or quote the text",
    ),
    (
        "did not find expected node content",
        "a value is expected here",
        "write the value, close the list or mapping before, or quote a text that starts with "
        "`,`, `]` or `}`",
    ),
    (
        "found character that cannot start any token",
        "no value can start with this character",
        "quote the text",
    ),
)
_CONTEXTS: Final = {
    "while parsing a flow sequence": "the list starts here",
    "while parsing a flow mapping": "the mapping starts here",
    "while parsing a block mapping": "the mapping starts here",
    "while parsing a block collection": "the list starts here",
    "while scanning a simple key": "the key starts here",
}
_UNCLOSED: Final = ("found unexpected end of stream", "found unexpected document indicator")
_TAB_INDENT: Final = re.compile(r" *(\t)")
_CONFLICT: Final = re.compile(r"^(?:<{7}|>{7})(?: .*)?$", re.MULTILINE)
_TEMPLATE: Final = re.compile(r"\{\{.*?\}\}|\{%.*?%\}")
_WORD_BEFORE: Final = re.compile(r"[^\s,\[\]{}]*$")
_WORD_BEHIND: Final = re.compile(r"[^\s,\[\]{}]*")


def report_syntax(source: SourceText, error: Any, out: Findings) -> int:
    """Report the error that ended parsing; return the offset up to which the text was read."""
    problem = _plain(getattr(error, "problem", None))
    context = _plain(getattr(error, "context", None))
    mark: Any = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    if mark is None:
        span = Span.of_file(source.path)
        _add(out, codes.YAML_SYNTAX, span, "this is not YAML", "check the file with an editor")
        return 0
    start: Any = getattr(error, "context_mark", None) or mark
    if (tab := _tab(source, start, mark)) is not None:
        span = source.span(tab, tab + 1)
        _add(out, codes.TAB_INDENTATION, span, "a tab in the indentation", "replace it with spaces")
        return min(int(start.index), tab)
    if (cause := _cause(source, start, mark, context)) is not None:
        at, code, message, help_ = cause
        _add(out, code, source.span(*at), message, help_)
        return min(int(start.index), at[0])
    span = _one_char(source, mark)
    for line in (start.line, mark.line):
        if line < len(source.lines) and source.lines[line].startswith("%"):
            begin = source.start_of(line)
            _add(
                out,
                codes.YAML_DIRECTIVE,
                source.span(begin, begin + len(source.lines[line])),
                "a line that starts with `%` is a directive, and none is accepted",
                "delete the line; quote a text that starts with %",
            )
            return begin
    message, help_ = _words(problem)
    if problem.startswith(_UNCLOSED) and start is not mark:
        # The end of the text says nothing; the quote that was forgotten is at its start.
        with suppress(StopReading):
            out.add(codes.YAML_SYNTAX.at(_one_char(source, start), message, help=help_))
        return int(start.index)
    if problem.startswith("found unexpected ':'"):
        start_at, end_at = _word_around(source.text, int(mark.index))
        word = shorten(source.text[start_at:end_at])
        _add(
            out,
            codes.YAML_SYNTAX,
            source.span(start_at, end_at),
            f"`{word}` has a `:` in it and needs quotes inside brackets",
            f'write "{word}"',
        )
        return start_at
    related = []
    if (label := _CONTEXTS.get(context)) is not None and start is not mark:
        first = _one_char(source, start)
        if first != span:
            related.append(Related(first, label))
    with suppress(StopReading):
        out.add(codes.YAML_SYNTAX.at(span, message, related=related, help=help_))
    return min(int(start.index), int(mark.index))


def _words(problem: str) -> tuple[str, str]:
    for theirs, ours, help_ in _PROBLEMS:
        if problem.startswith(theirs):
            return ours, help_
    return (
        f"this is not YAML: {problem}" if problem else "this is not YAML",
        "compare the indentation with the lines above; close quotes and brackets",
    )


def _tab(source: SourceText, start: Any, mark: Any) -> int | None:
    """Return the offset of a tab that explains the error."""
    for line in range(start.line, mark.line + 1):
        if line < len(source.lines):
            match = _TAB_INDENT.match(source.lines[line])
            if match is not None and source.lines[line].strip():
                return source.start_of(line) + match.start(1)
    at = int(mark.index)
    return at if source.text[at : at + 1] == "\t" else None


def _cause(
    source: SourceText, start: Any, mark: Any, context: str
) -> tuple[tuple[int, int], Code, str, str] | None:
    """Return what else than YAML explains the error: where, and what to say of it."""
    if (conflict := _CONFLICT.search(source.text)) is not None:
        return (
            conflict.span(),
            codes.YAML_SYNTAX,
            "a merge conflict of Git was not resolved",
            "keep one of the two versions, and delete the lines that start with <<<<<<<, ======= "
            "and >>>>>>>",
        )
    lines = {mark.line, start.line if context == "while scanning a simple key" else mark.line}
    for line in sorted(line for line in lines if line < len(source.lines)):
        begin = source.start_of(line)
        end = begin + len(source.lines[line])
        if (template := _TEMPLATE.search(source.text, begin, end)) is not None:
            return (
                template.span(),
                codes.YAML_SYNTAX,
                "this looks like a template that was not rendered",
                "render the template first and let tierc read the result, or quote the text",
            )
        if (char := first_invisible(source.text, begin, end)) is not None:
            return (
                (char, char + 1),
                codes.INVISIBLE_CHARACTER,
                f"{describe(source.text[char])} is taken for a part of the word next to it",
                "replace it with a space or delete it; if it is meant, quote the text",
            )
    return None


def _word_around(text: str, at: int) -> tuple[int, int]:
    """Return the offsets of the word at ``at``: what blanks, commas and brackets bound."""
    before = _WORD_BEFORE.search(text, max(0, at - 200), at)
    behind = _WORD_BEHIND.match(text, at)
    return (
        at if before is None else before.start(),
        at if behind is None else behind.end(),
    )


def _one_char(source: SourceText, mark: Any) -> Span:
    line, col = mark.line, mark.column
    if line >= len(source.lines) > 0:  # the parser ends a text one line behind its last
        line = len(source.lines) - 1
        col = len(source.lines[line])
    return Span(source.path, line + 1, col + 1, line + 1, col + 2)


def _add(out: Findings, code: Code, span: Span, message: str, help_: str) -> None:
    with suppress(StopReading):
        out.add(code.at(span, message, help=help_))


def _plain(words: object) -> str:
    text = words.decode("utf-8", "replace") if isinstance(words, bytes) else words
    return text.strip() if isinstance(text, str) else ""
