"""Sources: find, read and compose YAML and JSON into documents with places.

The public door of ``compiler.reading``.  Nothing here imports the YAML library before the first
YAML file is parsed.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from compiler.diagnostics import Sink, Span
from compiler.reading.characters import (
    decode,
    has_invisible,
    refuse_forbidden,
    report_invisible,
    shown_lines,
)
from compiler.reading.document import (
    MAX_DEPTH,
    MAX_DOCUMENTS,
    MAX_FILE_BYTES,
    MAX_VALUES,
    Data,
    Document,
    Mark,
    Marks,
    Route,
    Scalar,
    SourceFile,
    Suppression,
)
from compiler.reading.files import discover, read_bytes
from compiler.reading.findings import Findings, StopReading
from compiler.reading.jsontext import compose_json
from compiler.reading.lexical import comments, quoted, report_tabs
from compiler.reading.suppress import WORD, read_suppressions
from compiler.reading.yamltext import compose_yaml

__all__ = [
    "MAX_DEPTH",
    "MAX_DOCUMENTS",
    "MAX_FILE_BYTES",
    "MAX_VALUES",
    "Data",
    "Document",
    "Mark",
    "Route",
    "Scalar",
    "SourceFile",
    "Span",
    "Suppression",
    "discover",
    "parse_source",
    "read_source",
]


def parse_source(path: str, data: bytes, sink: Sink) -> SourceFile:
    """Return what a file says; JSON if ``path`` ends in ``.json``, else YAML.

    Pure, and total: any bytes give a result, and what is wrong with them goes to ``sink``.
    """
    out = Findings(path, sink)
    try:
        source = decode(data, out)
    except StopReading:
        return SourceFile(path, shown_lines(data), (), ())
    suppressions: tuple[Suppression, ...] = ()
    documents: tuple[Document, ...] = ()
    try:
        refuse_forbidden(source, out)
        if path.lower().endswith(".json"):
            documents = compose_json(source, out)
        else:
            text = source.text
            # Few files hold what only the text between the scalars can tell.
            lexical = WORD in text or "\t" in text or has_invisible(text)
            stream = compose_yaml(source, out, noting=lexical)
            documents = stream.documents
            if lexical:
                found = tuple(comments(source, stream.scalars, stream.end))
                inert = quoted(stream.scalars, found)
                report_tabs(source, inert, stream.end, out)
                report_invisible(source, inert, stream.end, out)
                suppressions = read_suppressions(source, found, out)
    except StopReading:
        pass
    for index, document in enumerate(documents):
        if isinstance(document.marks, Marks):
            document.marks.read_again_by(partial(_marks, path, data, index))
    return SourceFile(path, source.lines, documents, suppressions)


def _marks(path: str, data: bytes, index: int) -> Marks:
    """Return the marks of one document, made anew; the findings are known already."""
    marks = parse_source(path, data, Sink()).documents[index].marks
    assert isinstance(marks, Marks)
    return marks


def read_source(root: Path, path: str, sink: Sink) -> SourceFile | None:
    """Return what the file ``path`` below ``root`` says.

    None, with a finding, where there is nothing to read: outside the root, missing, no regular
    file, no permission, or larger than :data:`MAX_FILE_BYTES`.
    """
    data = read_bytes(root, path, sink)
    return None if data is None else parse_source(path, data, sink)
