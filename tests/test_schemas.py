"""JSON Schemas: they are committed as generated, and say the same as the models where they can."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler import schemas
from compiler.__main__ import main
from compiler.decode import KINDS, decode
from compiler.diagnostics import Sink
from compiler.profiles import builtin_ladder, builtin_profiles
from compiler.source import Data, parse_source
from tests.decode_samples import SAMPLES, VALUES, changed, places

ROOT = Path(__file__).resolve().parent.parent
FIXTURES = Path(__file__).parent / "fixtures" / "decode"
BROKEN = FIXTURES / "broken"

# Documents that decoding refuses and a schema cannot.
KEYS_TOGETHER = "which keys exclude or need each other is beyond the schema"
FIGURES = "figures are not compared with each other"
PATTERN = "to the schema a pattern is any text"
CPUS = "a CPU list is only checked for its characters"
DIFFERENT = {
    "cores-reversed.yaml": FIGURES,
    "demand-order.yaml": FIGURES,
    "facts-duplicate-id.yaml": KEYS_TOGETHER,
    "facts-llc.yaml": FIGURES,
    "facts-overlap.yaml": FIGURES,
    "facts-reversed.yaml": CPUS,
    "facts-smt.yaml": FIGURES,
    "ladder-incomplete.yaml": KEYS_TOGETHER,
    "ladder-order.yaml": KEYS_TOGETHER,
    "ladder-shares.yaml": FIGURES,
    "ladder-twice.yaml": KEYS_TOGETHER,
    "match-kthread.yaml": KEYS_TOGETHER,
    "match-nothing.yaml": KEYS_TOGETHER,
    "pattern-comm-class.yaml": PATTERN,
    "pattern-comm-empty.yaml": PATTERN,
    "pattern-pods-inside.yaml": PATTERN,
    "pattern-pods.yaml": PATTERN,
    "pattern-regex-escaped.yaml": PATTERN,
    "pattern-regex.yaml": PATTERN,
    "pattern-slash.yaml": PATTERN,
    "pattern-stars.yaml": PATTERN,
    "pods-empty.yaml": KEYS_TOGETHER,
    "prefer-and-require.yaml": KEYS_TOGETHER,
    "prefer-opposites.yaml": KEYS_TOGETHER,
    "prefer-twice.yaml": KEYS_TOGETHER,
    "profile-inside.yaml": KEYS_TOGETHER,
    "profile-known.yaml": FIGURES,
    "profile-path.yaml": KEYS_TOGETHER,
    "profile-row-stage.yaml": KEYS_TOGETHER,
    "profile-unreachable.yaml": KEYS_TOGETHER,
    "project-no-target.yaml": KEYS_TOGETHER,
    "protect-and-demote.yaml": KEYS_TOGETHER,
    "protect-both.yaml": KEYS_TOGETHER,
    "protect-demote-keep.yaml": KEYS_TOGETHER,
    "selector-gt.yaml": KEYS_TOGETHER,
    "selector-names-empty.yaml": KEYS_TOGETHER,
    "selector-values.yaml": KEYS_TOGETHER,
    "test-expect.yaml": KEYS_TOGETHER,
    "test-given.yaml": KEYS_TOGETHER,
    "test-nothing.yaml": KEYS_TOGETHER,
    "workload-engine-only.yaml": KEYS_TOGETHER,
    "workload-none.yaml": KEYS_TOGETHER,
    "workload-two.yaml": KEYS_TOGETHER,
}
NO_SCHEMA = {
    "kind-built-in.yaml",
    "kind-misspelt.yaml",
    "kind-missing.yaml",
    "kind-unknown.yaml",
    "kubernetes-object.yaml",
}


def plain(value: Data) -> Any:
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value


@cache
def validator(kind: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(json.loads(schemas.packaged_schema(kind)))


def first_document(path: Path) -> Any:
    source = parse_source(path.name, path.read_bytes(), Sink())
    return source.documents[0]


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_committed_schema_is_the_generated_one(kind: str) -> None:
    committed = (ROOT / "schemas" / f"{kind}.json").read_bytes()
    assert committed == schemas.generate()[kind], "run `make schemas` and review the difference"
    assert committed == schemas.packaged_schema(kind)


def test_there_is_one_schema_a_kind_and_no_other() -> None:
    assert {path.stem for path in (ROOT / "schemas").iterdir()} == set(KINDS)
    with pytest.raises(KeyError):
        schemas.packaged_schema("WorkloadGroup")


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_schema_is_valid_and_self_contained(kind: str) -> None:
    schema = json.loads(schemas.packaged_schema(kind))
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    for line in schemas.packaged_schema(kind).decode().splitlines():
        assert '"$ref"' not in line or '"$ref": "#/$defs/' in line


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_mapping_is_described_and_closed(kind: str) -> None:
    schema = json.loads(schemas.packaged_schema(kind))
    for name, part in {kind: schema, **schema["$defs"]}.items():
        assert part["description"], name
        assert part["additionalProperties"] is False, name


@pytest.mark.parametrize(
    "name", sorted(p.name for p in BROKEN.iterdir() if p.suffix != ".expected")
)
def test_broken_documents_are_refused_alike(name: str) -> None:
    doc = first_document(BROKEN / name)
    if name in NO_SCHEMA:
        assert doc.kind not in KINDS
        return
    refused = not validator(doc.kind).is_valid(plain(doc.data))
    assert refused == (name not in DIFFERENT), DIFFERENT.get(name, "the schema accepts it")


def test_listed_differences_exist() -> None:
    assert {name for name in DIFFERENT if (BROKEN / name).exists()} == set(DIFFERENT)


@pytest.mark.parametrize("path", sorted((FIXTURES / "right").iterdir()), ids=lambda p: p.name)
def test_right_documents_are_accepted_alike(path: Path) -> None:
    sink = Sink()
    documents = parse_source(path.name, path.read_bytes(), sink).documents
    assert documents
    for doc in documents:
        assert decode(doc, sink) is not None, list(sink)
        assert doc.kind is not None
        assert list(validator(doc.kind).iter_errors(plain(doc.data))) == []


@settings(max_examples=150)
@given(kind=st.sampled_from(sorted(KINDS)), value=VALUES, data=st.data())
def test_what_decoding_accepts_the_schema_accepts(
    kind: str, value: Any, data: st.DataObject
) -> None:
    route = data.draw(st.sampled_from(places(SAMPLES[kind])[1:]))
    body = changed(SAMPLES[kind], route, value)
    text = json.dumps({"apiVersion": "tierc.dev/v1alpha1", "kind": kind, **body})
    sink = Sink()
    for doc in parse_source("x.json", text.encode(), sink).documents:
        if decode(doc, sink) is not None:
            assert list(validator(kind).iter_errors(plain(doc.data))) == []


def test_built_in_documents_satisfy_their_schema() -> None:
    for loaded in (*builtin_profiles().values(), builtin_ladder()):
        assert loaded.doc.kind is not None
        assert validator(loaded.doc.kind).is_valid(plain(loaded.doc.data)), loaded.name


def test_command_writes_the_committed_files(tmp_path: Path) -> None:
    target = tmp_path / "a" / "b"
    command = [sys.executable, "-m", "compiler", "schemas", str(target)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
    written = {path.name: path.read_bytes() for path in target.iterdir()}
    assert written == {path.name: path.read_bytes() for path in (ROOT / "schemas").iterdir()}


def test_command_refuses_wrong_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schemas"]) == 2
    assert "Missing argument" in capsys.readouterr().err
    (tmp_path / "file").write_text("")
    assert main(["schemas", str(tmp_path / "file")]) == 2
    assert "cannot write" in capsys.readouterr().err


def test_validator_library_is_not_needed_to_generate() -> None:
    code = (
        "import sys; from compiler import schemas; schemas.generate();"
        "sys.exit('jsonschema' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


def test_an_installed_package_uses_its_own_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "_schemas").mkdir()
    (tmp_path / "_schemas" / "Intent.json").write_bytes(b"{}")
    monkeypatch.setattr(schemas, "files", lambda package: tmp_path)
    assert schemas.packaged_schema("Intent") == b"{}"
    assert schemas.packaged_schema("Demand") == (ROOT / "schemas" / "Demand.json").read_bytes()
