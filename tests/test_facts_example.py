"""The example's node facts are what collecting on that machine gives."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from ruamel.yaml import YAML

from compiler.decode import Loaded, decode
from compiler.diagnostics import Sink
from compiler.facts.collect import collect
from compiler.facts.validate import validate
from compiler.facts.write import facts_data, facts_yaml
from compiler.model.base import NodeMetadata
from compiler.model.facts import NodeFacts
from compiler.source import parse_source
from tests.sysfs_builder import gb10

EXAMPLE = Path(__file__).resolve().parent.parent / "examples/dgx-spark/nodes/spark-a.yaml"
SCHEMA = "../../../schemas/NodeFacts.json"


def load(text: bytes, sink: Sink) -> Loaded[NodeFacts]:
    (document,) = parse_source("nodes/spark-a.yaml", text, sink).documents
    loaded = decode(document, sink)
    assert loaded is not None
    assert isinstance(loaded.model, NodeFacts)
    return Loaded(loaded.model, loaded.doc)


def test_the_example_is_what_collect_gives(tmp_path: Path) -> None:
    facts = collect(gb10(tmp_path / "root").root, name=None, live=False)
    assert facts.metadata.name == "spark-a"
    labelled = facts.model_copy(
        update={"metadata": NodeMetadata(name="spark-a", labels={"accelerator": "gb10"})}
    )
    assert facts_yaml(labelled, schema=SCHEMA) == EXAMPLE.read_text()


def test_the_example_is_read_back_equal_and_without_findings(tmp_path: Path) -> None:
    sink = Sink()
    loaded = load(EXAMPLE.read_bytes(), sink)
    validate(loaded, sink)
    assert list(sink) == []
    collected = collect(gb10(tmp_path / "root").root, name=None, live=False)
    assert loaded.model.spec == collected.spec
    assert loaded.model.metadata.labels == {"accelerator": "gb10"}
    assert (EXAMPLE.parent / SCHEMA).resolve().parent.name == "schemas"


def test_the_example_fits_the_schema_it_names() -> None:
    schema = json.loads((EXAMPLE.parent / SCHEMA).resolve().read_text())
    data = YAML(typ="safe").load(EXAMPLE.read_text())
    jsonschema.validate(data, schema)
    data["spec"]["cpu"] = data["spec"].pop("cpus")
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(data, schema)


def test_the_data_has_no_key_for_what_is_unknown(tmp_path: Path) -> None:
    data = facts_data(collect(gb10(tmp_path / "root").root, name=None, live=False))

    def values(node: object) -> list[object]:
        if isinstance(node, dict):
            return [v for value in node.values() for v in [value, *values(value)]]
        return [v for item in node for v in [item, *values(item)]] if isinstance(node, list) else []

    assert not [value for value in values(data) if value in (None, {}, [], "unknown")]
    spec = data["spec"]
    assert isinstance(spec, dict)
    assert spec["cpus"]["isolated"] == ""  # type: ignore[index, call-overload]
