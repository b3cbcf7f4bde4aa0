"""Documents into models, and everything wrong with them into findings at the right line.

The models speak pydantic; no word of it leaves this package.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from pydantic import ValidationError

from compiler.codes.language import (
    BUILT_IN_KIND,
    DUPLICATE_DOCUMENT,
    MORE_FINDINGS,
    UNKNOWN_API_VERSION,
    UNKNOWN_KIND,
    UNKNOWN_WORD,
    WRONG_TYPE,
)
from compiler.codes.reading import AMBIGUOUS_SCALAR, KEY_NOT_STRING, NUMBER_OUT_OF_RANGE
from compiler.decode.checks import check_texts
from compiler.decode.translate import findings_of
from compiler.diagnostics import Diagnostic, Related, Sink, Span
from compiler.model.base import API_VERSION, Model
from compiler.model.demand import Demand
from compiler.model.facts import NodeFacts
from compiler.model.intent import Intent
from compiler.model.ladder import TierLadder
from compiler.model.policytest import PolicyTest
from compiler.model.profile import EngineProfile, WorkloadGroup
from compiler.model.project import Project
from compiler.source import Document
from compiler.suggest import nearest

__all__ = ["KINDS", "AnyDocument", "Loaded", "check_unique", "decode", "of_kind"]

AnyDocument = (
    Intent | EngineProfile | TierLadder | NodeFacts | Demand | Project | PolicyTest | WorkloadGroup
)

KINDS: Final[Mapping[str, type[AnyDocument]]] = {
    "Intent": Intent,
    "EngineProfile": EngineProfile,
    "TierLadder": TierLadder,
    "NodeFacts": NodeFacts,
    "Demand": Demand,
    "Project": Project,
    "PolicyTest": PolicyTest,
}
"""The kinds a user may write."""

MAX_SHOWN: Final = 50
"""Findings of one document that are shown; what a person reads before repairing something."""

_READING: Final = frozenset(
    code.id for code in (AMBIGUOUS_SCALAR, NUMBER_OUT_OF_RANGE, KEY_NOT_STRING)
)
_FOLLOW: Final = frozenset(code.id for code in (WRONG_TYPE, UNKNOWN_WORD))
"""What an ambiguous value gives as well, being a text to us: it has one cause and one cure."""

_BUILT_IN_KINDS: Final[Mapping[str, type[AnyDocument]]] = {**KINDS, "WorkloadGroup": WorkloadGroup}

M_co = TypeVar("M_co", bound=Model, covariant=True)
M = TypeVar("M", bound=Model)


@dataclass(frozen=True)
class Loaded(Generic[M_co]):
    """A model and the document it came from."""

    model: M_co
    doc: Document

    def span(self, *route: str | int) -> Span:
        """Return the place of the value at ``route`` (keys as in the file)."""
        return self.doc.span(*route)

    def key_span(self, *route: str | int) -> Span:
        """Return the place of the key at ``route``."""
        return self.doc.key_span(*route)

    @property
    def name(self) -> str:
        """``metadata.name``; empty for a project without one."""
        return self.doc.name or ""


def decode(doc: Document, sink: Sink, *, built_in: bool = False) -> Loaded[AnyDocument] | None:
    """Return the model a document stands for, or None after saying all that is wrong with it.

    ``built_in`` accepts the kinds that only tierc itself may write.
    """
    assert isinstance(doc.data, dict)
    model = _model_of(doc, sink, built_in=built_in)
    if model is None:
        return None
    found: list[Diagnostic] = []
    loaded = None
    try:
        loaded = Loaded(model.model_validate(doc.data), doc)
    except ValidationError as error:
        misread = _misread(doc, sink)
        found += [
            diagnostic
            for diagnostic in findings_of(doc, model, error)
            if diagnostic.span not in misread or diagnostic.code not in _FOLLOW
        ]
    else:
        found += findings_of(doc, model, None)
    found += check_texts(doc, {diagnostic.span for diagnostic in found})
    found.sort(key=lambda diagnostic: diagnostic.sort_key)
    sink.extend(found[:MAX_SHOWN])
    if len(found) > MAX_SHOWN:
        sink.add(
            MORE_FINDINGS.at(
                found[MAX_SHOWN].span,
                f"more than {MAX_SHOWN} findings in this document; those from here on are left out",
                help="repair those shown first; often they have one cause",
            )
        )
    return None if found else loaded


def _misread(doc: Document, sink: Sink) -> set[Span]:
    """Return the places of the file of which reading already said that they are ambiguous."""
    return {d.span for d in sink if d.code in _READING and d.span.path == doc.path}


def check_unique(loaded: Sequence[Loaded[Model]], sink: Sink) -> None:
    """Report documents of the same kind and name; each later one with the place of the first."""
    first: dict[tuple[str, str], Span] = {}
    for one in sorted(loaded, key=lambda one: one.key_span("kind")):
        kind, name = one.doc.kind or "", one.name
        if not name:
            continue
        span = one.span("metadata", "name")
        if (seen := first.setdefault((kind, name), span)) is not span:
            sink.add(
                DUPLICATE_DOCUMENT.at(
                    span,
                    f"{kind} `{name}` is defined twice",
                    related=[Related(seen, "first defined here")],
                    help="rename one of them, or remove it",
                )
            )


def of_kind(loaded: Iterable[Loaded[Model]], model: type[M]) -> tuple[Loaded[M], ...]:
    """Return the documents of one kind, in the order given."""
    return tuple(Loaded(one.model, one.doc) for one in loaded if isinstance(one.model, model))


def _model_of(doc: Document, sink: Sink, *, built_in: bool) -> type[AnyDocument] | None:
    assert isinstance(doc.data, dict)
    version, kind = doc.data.get("apiVersion"), doc.data.get("kind")
    top = doc.key_span(next(iter(doc.data), ""))
    ours = version == API_VERSION
    foreign = isinstance(version, str) and not ours and _is_foreign(version)
    if not ours:
        if "apiVersion" not in doc.data:
            message, place = "the document has no `apiVersion`", top
        elif not isinstance(version, str):
            message, place = "`apiVersion` must be a text", doc.span("apiVersion")
        elif foreign:
            message = f"`{version}` is no version of tierc: this is a document of something else"
            place = doc.span("apiVersion")
        else:
            message, place = f"unknown apiVersion `{version}`", doc.span("apiVersion")
        how = f"write apiVersion: {API_VERSION}"
        if foreign:
            how += ", or keep the file out of the project's sources"
        sink.add(UNKNOWN_API_VERSION.at(place, message, help=how))
    kinds = _BUILT_IN_KINDS if built_in else KINDS
    listed = ", ".join(KINDS)
    if isinstance(kind, str) and kind in kinds:
        return kinds[kind] if ours else None
    if foreign:
        return None
    if kind == "WorkloadGroup":
        sink.add(
            BUILT_IN_KIND.at(
                doc.span("kind"),
                "WorkloadGroup documents are part of tierc and cannot be added",
                help="name the threads in an intent: workload: {match: [{comm: ...}]}",
            )
        )
    elif "kind" not in doc.data:
        sink.add(UNKNOWN_KIND.at(top, "the document has no `kind`", help=f"write one of {listed}"))
    elif not isinstance(kind, str):
        sink.add(
            UNKNOWN_KIND.at(
                doc.span("kind"), "`kind` must be a text", help=f"write one of {listed}"
            )
        )
    else:
        meant = nearest(kind, tuple(KINDS))
        how = f"did you mean `{meant[0]}`? kinds are {listed}" if meant else f"kinds are {listed}"
        sink.add(UNKNOWN_KIND.at(doc.span("kind"), f"unknown kind `{kind}`", help=how))
    return None


def _is_foreign(version: str) -> bool:
    """Whether it looks like the API version of another system: ``v1``, ``apps/v1``."""
    group, _, _ = version.rpartition("/")
    return group != "tierc.dev" and not nearest(version, (API_VERSION,))
