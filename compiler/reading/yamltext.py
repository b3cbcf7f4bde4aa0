"""YAML text to documents, by the events of ruamel's C parser."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import islice
from typing import Final

from compiler.codes import reading as codes
from compiler.diagnostics import Span
from compiler.reading.characters import SourceText
from compiler.reading.composer import Composer
from compiler.reading.document import Document
from compiler.reading.findings import Findings, StopReading
from compiler.reading.lexical import Stretch
from compiler.reading.yamlsyntax import report_syntax

# The parser compares each %TAG with all before it, so thousands would keep it busy for minutes.
_MAX_DIRECTIVES: Final = 100
_DIRECTIVE: Final = re.compile(r"^%", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class YamlStream:
    """What was composed of one file.

    Attributes:
        documents: the documents that could be read, in order.
        scalars: where the scalars are in the text, in order; comments are outside them.  Empty
            unless asked for.
        end: the offset up to which the text was read.
    """

    documents: tuple[Document, ...]
    scalars: tuple[Stretch, ...]
    end: int


def compose_yaml(source: SourceText, out: Findings, *, noting: bool) -> YamlStream:
    """Return the documents of a YAML text, and with ``noting`` the places of its scalars.

    Never raises: behind the first place that cannot be read, nothing is.
    """
    try:
        from _ruamel_yaml import CParser  # noqa: PLC0415 - 50 ms that --help does not need
    except ImportError:
        out.add(
            codes.PARSER_MISSING.at(
                Span.of_file(source.path),
                "the C parser of ruamel.yaml is not installed, so YAML cannot be read",
                help="install the package ruamel.yaml.clib beside ruamel.yaml",
            )
        )
        return YamlStream((), (), 0)
    directives = list(islice(_DIRECTIVE.finditer(source.text), _MAX_DIRECTIVES + 1))
    if len(directives) > _MAX_DIRECTIVES:
        at = directives[0].start()
        message = "lines that start with `%` are directives, and none is accepted"
        out.add(codes.YAML_DIRECTIVE.at(source.span(at, at + 1), message, help="delete them"))
        return YamlStream((), (), 0)
    from ruamel.yaml import events  # noqa: PLC0415
    from ruamel.yaml.error import YAMLError  # noqa: PLC0415

    composer = Composer(source, out, CParser(source.text).get_event, events, noting)
    try:
        composer.stream()
    except StopReading:
        pass
    except YAMLError as error:
        composer.end = report_syntax(source, error, out)
    return YamlStream(tuple(composer.documents), tuple(composer.scalars), composer.end)
