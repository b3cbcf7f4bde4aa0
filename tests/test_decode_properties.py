"""Whatever a document holds, decoding gives a model or findings, and never a traceback."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.decode import KINDS, decode
from compiler.diagnostics import Sink
from compiler.source import Document, parse_source
from tests.decode_samples import KEYS, SAMPLES, VALUES, at, changed, places


def documents(kind: str, body: Any) -> tuple[Document, ...]:
    data = {"apiVersion": "tierc.dev/v1alpha1", "kind": kind, **body}
    text = json.dumps(data, indent=1, ensure_ascii=False)
    sink = Sink()
    read = parse_source("x.json", text.encode("utf-8", "surrogatepass"), sink)
    return read.documents if not len(sink) else ()


def check(kind: str, body: Any) -> None:
    for doc in documents(kind, body):
        sink = Sink()
        loaded = decode(doc, sink)
        assert (loaded is None) == (len(sink) > 0)
        for found in sink:
            assert found.span.path == "x.json"
            assert found.message
            for word in ("Input should", "Value error", "pydantic", "errors.pydantic"):
                assert word not in found.message + found.help


def test_samples_are_accepted() -> None:
    for kind, body in SAMPLES.items():
        (doc,) = documents(kind, body)
        sink = Sink()
        assert decode(doc, sink) is not None, list(sink)


@settings(max_examples=400)
@given(kind=st.sampled_from(sorted(KINDS)), value=VALUES, data=st.data())
def test_any_value_anywhere(kind: str, value: Any, data: st.DataObject) -> None:
    body = SAMPLES[kind]
    route = data.draw(st.sampled_from(places(body)[1:]))
    check(kind, changed(body, route, value))


@settings(max_examples=150)
@given(kind=st.sampled_from(sorted(KINDS)), key=KEYS, value=VALUES, data=st.data())
def test_any_key_anywhere(kind: str, key: str, value: Any, data: st.DataObject) -> None:
    body = SAMPLES[kind]
    mappings = [route for route in places(body)[1:] if isinstance(at(body, route), dict)]
    route = data.draw(st.sampled_from(mappings))
    check(kind, changed(body, route, {**at(body, route), key: value}))


@settings(max_examples=100)
@given(kind=st.sampled_from(sorted(KINDS)), metadata=VALUES, spec=VALUES)
def test_any_body(kind: str, metadata: Any, spec: Any) -> None:
    check(kind, {"metadata": metadata, "spec": spec})
