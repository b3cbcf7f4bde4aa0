"""A right document of each kind, and arbitrary values to spoil them with."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

SAMPLES: dict[str, dict[str, Any]] = {
    "Intent": {
        "metadata": {"name": "chat", "labels": {"team": "a"}},
        "spec": {
            "nodes": {
                "matchLabels": {"a": "b"},
                "matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}],
                "names": ["n"],
            },
            "workload": {
                "engine": "vllm",
                "version": "0.24.0",
                "gpus": ["0000:01:00.0", {"model": "GB10"}],
                "pods": {"namespace": "serving"},
            },
            "protect": ["decode", {"path": "ttft", "tier": "interactive"}],
            "prefer": ["gpu-local"],
            "lane": {"cores": {"min": 1, "max": 2}, "share": "guarded"},
            "precedence": 1,
        },
    },
    "EngineProfile": {
        "metadata": {"name": "mine"},
        "spec": {
            "known": ["1.0", "2.0"],
            "paths": {"decode": ["engine-step"]},
            "stages": {
                "engine-step": {
                    "cores": {"min": 1, "max": 1},
                    "match": [{"comm": "mine*", "versions": ">=1", "evidence": "tried"}],
                }
            },
            "knobs": [{"name": "X", "kind": "env", "note": "x", "evidence": "tried"}],
        },
    },
    "TierLadder": {
        "metadata": {"name": "own"},
        "spec": {
            "tiers": [
                {"name": name, "slice": "3ms", "weight": 100, "share": 1, "preempt": False}
                for name in ("latency", "system", "normal", "background")
            ]
        },
    },
    "NodeFacts": {
        "metadata": {"name": "n"},
        "spec": {
            "cpus": {"online": "0-3"},
            "cores": [{"cpus": "0-3", "smt": ["0-1", "2-3"], "llc": 0}],
            "llcs": [{"id": 0, "level": 3, "cpus": "0-3", "sizeKiB": 1}],
            "devices": [{"id": "gpu0", "type": "gpu", "bdf": "0000:01:00.0"}],
        },
    },
    "Demand": {
        "metadata": {"name": "d"},
        "spec": {
            "intent": "chat",
            "cores": {"p50": 0.1, "p99": 2},
            "window": "600s",
            "spinSuspect": False,
        },
    },
    "Project": {
        "spec": {
            "enforce": [{"mode": "observe"}],
            "targets": {
                "taskset": {},
                "bpf": None,
                "kubernetes": {
                    "image": "busybox:1",
                    "maxUnavailable": "10%",
                    "labelPrefix": "example.org",
                    "tolerations": [{"key": "gpu", "value": "a", "effect": "NoSchedule"}],
                },
            },
            "rollout": {"steps": [{"names": ["n"]}, {"percent": 10}, "all"]},
            "lint": {"severity": {"TRC201": "warning"}},
            "reserve": {"housekeeping": 2},
        }
    },
    "PolicyTest": {
        "metadata": {"name": "t"},
        "spec": {
            "nodes": {"names": ["n"]},
            "facts": ["fixtures/box.yaml"],
            "threads": [
                {
                    "given": {"comm": "a", "pod": {"namespace": "n", "labels": {"a": "b"}}},
                    "expect": {"tier": "normal", "cpusWithin": "0-3", "notSharingWith": ["b"]},
                },
                {"given": {"comm": "k", "kthread": True}, "expect": {"matched": False}},
            ],
            "lanes": [
                {"name": "l", "cores": {"min": 1, "max": 2}, "wholeCores": True, "share": "open"},
                {"name": "m", "exists": False},
            ],
            "findings": {
                "present": ["TRC201", {"code": "TRC310", "intent": "a", "line": 3}],
                "absent": ["TRC311"],
                "none": "error",
            },
            "snapshot": "s.plan.json",
        },
    },
}

WORDS = st.sampled_from(
    ["[key]", "min", "range", "word", "cores", "spec", "name", "match", "comm", "decode", "0-3", ""]
)
KEYS = WORDS | st.text(max_size=6)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | WORDS
    | st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=8)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)


def places(value: Any, route: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [route]
    if isinstance(value, dict):
        for key, item in value.items():
            found += places(item, (*route, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            found += places(item, (*route, index))
    return found


def changed(value: Any, route: tuple[Any, ...], change: Any) -> Any:
    if not route:
        return change
    copy = value.copy()
    copy[route[0]] = changed(copy[route[0]], route[1:], change)
    return copy


def at(value: Any, route: tuple[Any, ...]) -> Any:
    for step in route:
        value = value[step]
    return value
