"""What the files of a new policy repository say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Final

from compiler.facts.write import facts_yaml
from compiler.model.facts import NodeFacts
from compiler.scaffold.engines import Running
from compiler.schemas import generate
from compiler.topology import topology_of

SCHEMAS: Final = ".tierc/schemas"
"""Where the JSON Schemas are, for editors.  Below a name with a dot no documents are looked for."""
_ENGINE_FILE: Final = "intents/engine.yaml"
_MAX_STEM: Final = 240  # a node's name may be longer than a file's
_TITLES: Final = {"vllm": "VLLM::EngineCor", "sglang": "sglang::schedul"}
_SAMPLE: Final = Running("vllm", "system.slice/docker-*.scope/**")


def repository(
    facts: NodeFacts | None, engines: Sequence[Running], *, lanes: bool = True
) -> dict[str, bytes]:
    """Return the files of a repository by path.

    Args:
        facts: of the machine at hand; None where they cannot be had.
        engines: what runs there, each with its cgroup: intents about them are written out.  Where
            none runs there is a template to fill in.
        lanes: whether the intents of the engines ask for CPUs of their own.
    """
    out = {
        "README.md": _text("README.md"),
        "tierc.yaml": _text("tierc.yaml"),
        "intents/node-infra.yaml": _text("node-infra.yaml"),
        "intents/batch.yaml": _batch(facts),
        "tests/basics.yaml": _text("basics.yaml"),
        _ENGINE_FILE: _engines(facts, engines, lanes=lanes),
        ".github/workflows/tierc.yaml": _text("ci.yaml"),
    }
    if facts is None:
        out["nodes/README.md"] = _text("nodes.md")
    else:
        out[facts_file(facts.metadata.name)] = facts_yaml(
            facts, schema=f"../{SCHEMAS}/NodeFacts.json"
        )
    data = {path: text.encode() for path, text in out.items()}
    data |= {f"{SCHEMAS}/{kind}.json": schema for kind, schema in generate().items()}
    return dict(sorted(data.items()))


def facts_file(node: str) -> str:
    """Return the path of the file with a node's facts."""
    return f"nodes/{node[:_MAX_STEM].rstrip('.-')}.yaml"


def _engines(facts: NodeFacts | None, engines: Sequence[Running], *, lanes: bool) -> str:
    schema = f"# yaml-language-server: $schema=../{SCHEMAS}/Intent.json\n"
    if engines:
        head = "# The inference engine that was running when `tierc init` looked. Adjust it.\n"
        return (
            schema
            + head
            + "---\n".join(_engine(facts, one, len(engines) if lanes else 0) for one in engines)
        )
    body = "".join(f"#{line}" for line in _engine(facts, _SAMPLE, 1).splitlines(True))
    return (
        f"{schema}# A template for the inference engine, the work that must not wait. To use it, "
        "delete the first\n# `#` of every line below, and adjust engine and cgroup.\n\n" + body
    )


def _engine(facts: NodeFacts | None, running: Running, lanes: int) -> str:
    text = _text("engine.yaml") + (_text("engine-lane.yaml") if lanes else "")
    low, high = _lane(facts, max(1, lanes))
    values: Mapping[str, str] = {
        "%ENGINE%": running.engine,
        "%TITLE%": _TITLES.get(running.engine, running.engine),
        "%CGROUP%": running.cgroup,
        "%PREFER%": ", ".join(_preferences(facts)),
        "%MIN%": str(low),
        "%MAX%": str(high),
    }
    for key, value in values.items():
        text = text.replace(key, value)
    # Intents that give one name share a lane; two engines on one machine get one each.
    return text.replace("name: serving", f"name: {running.engine}") if lanes > 1 else text


def _preferences(facts: NodeFacts | None) -> list[str]:
    """Return words that mean something on this machine; elsewhere they would only be reported."""
    if facts is None:
        return ["gpu-local"]
    spec = facts.spec
    gpus = [d for d in spec.devices if d.type == "gpu" and d.locality is not None]
    words = ["gpu-local"] if gpus else []
    if len({group.kind for group in spec.cores}) > 1:
        words.append("performance")
    return words or ["same-llc"]


def _batch(facts: NodeFacts | None) -> str:
    text = _text("batch.yaml")
    if facts is None or len(topology_of(facts).effective_cores) > 1:
        return text
    return text.replace("  prefer:", "  # prefer:")  # one core leaves nothing over


def _lane(facts: NodeFacts | None, lanes: int) -> tuple[int, int]:
    """Return the fewest and most cores of a lane: together at most half of the machine."""
    cores = len(topology_of(facts).effective_cores) if facts is not None else 16
    low = 2 if cores >= 8 else 1
    return low, max(low, min(6, cores // 2 // lanes))


def _text(name: str) -> str:
    return files("compiler.scaffold").joinpath("files", name).read_text(encoding="utf-8")
