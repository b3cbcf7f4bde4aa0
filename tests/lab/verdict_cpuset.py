"""What the cpuset target has to have done to the guest's groups and processes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from compiler.cpuset import CpuSet
from tests.lab.check import Check
from tests.lab.scenario_cpuset import PINNED, ROOT, Seen, read

ONE: Final = {
    "cpuset.cpus.effective": "0,3",
    "serving.slice/cpuset.cpus": "1",
    "serving.slice/cpuset.cpus.effective": "1",
    "serving.slice/cpuset.cpus.partition": "root",
    "serving.slice/cpu.weight": "1000",
    "ml.slice/cpuset.cpus.exclusive": "2",
    "ml.slice/engine.service/cpuset.cpus": "2",
    "ml.slice/engine.service/cpuset.cpus.effective": "2",
    "ml.slice/engine.service/cpuset.cpus.partition": "root",
    "ml.slice/other.service/cpuset.cpus.effective": "0,3",
    "ci.slice/cpuset.cpus.effective": "3",
    "ci.slice/cpuset.cpus.partition": "member",
    "ci.slice/cpu.weight": "25",
    "system.slice/jobs.service/cpuset.cpus.effective": "3",
    "system.slice/jobs.service/cpu.idle": "1",
    "user.slice/cpuset.cpus": "",
    "user.slice/cpuset.cpus.effective": "0,3",
}
"""What the first plan makes of a fresh tree."""

ONE_RUNS: Final = {
    ROOT: "0,3",
    PINNED: "0,3",
    "ci.slice": "3",
    "kubepods/burstable/pod1": "0,3",
    "ml.slice/engine.service": "2",
    "ml.slice/other.service": "0,3",
    "other": "0,3",
    "serving.slice": "1",
    "system.slice/jobs.service": "3",
    "user.slice": "0,3",
}

TWO: Final = {
    "cpuset.cpus.effective": "0,2-3",
    "serving.slice/cpuset.cpus.effective": "1",
    "serving.slice/cpuset.cpus.partition": "root",
    "ml.slice/cpuset.cpus.exclusive": "",
    "ml.slice/cgroup.subtree_control": "",
    "ci.slice/cpuset.cpus.effective": "0,2-3",
    "ci.slice/cpu.weight": "100",
    "system.slice/jobs.service/cpuset.cpus.effective": "2-3",
    "system.slice/jobs.service/cpu.idle": "0",
    "system.slice/jobs.service/cpu.weight": "25",
}
"""What the second plan makes of that."""

TWO_RUNS: Final = {
    **dict.fromkeys(ONE_RUNS, "0,2-3"),
    "serving.slice": "1",
    "system.slice/jobs.service": "2-3",
}

BESIDE: Final = {
    "ci.slice/cpuset.cpus": "3",
    "ci.slice/cpu.weight": "25",
    "serving.slice/cpuset.cpus.effective": "1",
    "ml.slice/engine.service/cpuset.cpus.effective": "2",
    "ml.slice/engine.service/cpuset.cpus.partition": "member",
    "ml.slice/cpuset.cpus.exclusive": "",
    "system.slice/jobs.service/cpuset.cpus.effective": "3",
    "system.slice/jobs.service/cpu.idle": "1",
}
"""Beside a group that overlaps one lane, and has the CPU of the other for itself."""

LAST: Final = {
    "cpuset.cpus.effective": "1",
    "serving.slice/cpuset.cpus": "1",
    "serving.slice/cpuset.cpus.effective": "1",
    "serving.slice/cpuset.cpus.partition": "member",
    "ci.slice/cpuset.cpus": "",
    "other/cpuset.cpus.partition": "root",
}
"""Beside a partition that leaves everyone else the CPU of the lane alone."""

LAST_RUNS: Final = {**dict.fromkeys(ONE_RUNS, "1"), "other": "0,2-3"}

_BEFORE: Final = {"beside": "given", "last": "taken"}
"""What was there before a step, where that is not the fresh tree."""

_NEW: Final = {
    "cgroup.subtree_control": "",
    "cpuset.cpus": "",
    "cpuset.cpus.exclusive": "",
    "cpuset.cpus.partition": "member",
    "cpuset.mems": "",
    "cpu.weight": "100",
    "cpu.idle": "0",
    "cpu.max": "max 100000",
}
"""What the kernel gives a group when a controller is turned on."""

NOT_KEPT_OUT: Final = "others are not kept out: "


def check(console: str) -> list[Check]:
    """Judge what the guest printed."""
    seen = read(console)
    return [*_check_plans(seen), *_check_refusals(seen), *_check_all(seen)]


def _check_plans(seen: Seen) -> list[Check]:
    everywhere = {**dict.fromkeys(ONE_RUNS, "0-3"), PINNED: "1"}
    return [
        _runs(seen, "fresh", everywhere),
        _same(seen, "dry", "fresh", "a dry run changes nothing"),
        _says(seen, "dry", "would set ci.slice: cpuset.cpus: - -> 3"),
        _files(seen, "first", ONE),
        _runs(seen, "first", ONE_RUNS),
        Check(seen.codes.get("into-the-lane", 0) != 0, "nobody else can be pinned to a lane's CPU"),
        _same(seen, "again", "first", "a second run changes nothing"),
        _says(seen, "again", "tierc: 0 changed, "),
        _files(seen, "second", TWO),
        _runs(seen, "second", TWO_RUNS),
        _same(seen, "back", "first", "back to the first plan"),
        _same(seen, "disabled", "fresh", "the kill switch puts everything back"),
        _same(seen, "enabled", "first", "without it all is set again"),
        _same(seen, "reverted", "fresh", "revert puts everything back"),
        _runs(seen, "reverted", everywhere),
    ]


def _check_refusals(seen: Seen) -> list[Check]:
    beside, said = seen.files.get("beside", {}), seen.said.get("beside", "")
    if beside.get("serving.slice/cpuset.cpus.partition") == "root":
        others = seen.runs.get("beside", {})
        kept = bool(others) and all(
            cpus[0].isdisjoint(CpuSet.parse("1"))
            for label, cpus in others.items()
            if label != "serving.slice"
        )
        outcome = Check(kept, "a lane that a group beside it overlaps is a partition without it")
    else:
        outcome = Check(
            beside.get("serving.slice/cpuset.cpus.partition") == "member"
            and f"skipped, serving.slice: {NOT_KEPT_OUT}" in said,
            "a lane that a group beside it overlaps is no partition, and it is said",
        )
    return [
        _files(seen, "beside", BESIDE),
        outcome,
        _says(seen, "beside", f"skipped, ml.slice/engine.service: {NOT_KEPT_OUT}"),
        _same(seen, "beside-again", "beside", "a second run beside others changes nothing"),
        _says(seen, "beside-again", "tierc: 0 changed, "),
        _same(seen, "beside-reverted", "given", "revert puts back what others had set"),
        _files(seen, "taken", {"other/cpuset.cpus.partition": "root"}),
        _files(seen, "last", LAST),
        _runs(seen, "last", LAST_RUNS),
        _says(seen, "last", f"skipped, serving.slice: {NOT_KEPT_OUT}the kernel takes no partition"),
        _says(seen, "last", "skipped, ci.slice: needs 1 of CPUs 3, but the group above has 1"),
        _same(seen, "last-again", "last", "a second run changes nothing of that"),
        _same(seen, "last-reverted", "taken", "revert puts that back", every="1"),
    ]


def _check_all(seen: Seen) -> list[Check]:
    scripts = {tag: code for tag, code in seen.codes.items() if tag != "into-the-lane"}
    failed = {tag: code for tag, code in scripts.items() if code}
    touched = []
    for tag, files in seen.files.items():
        before = seen.files.get(_BEFORE.get(tag.partition("-")[0], "fresh"), {})
        touched += [
            f"{tag}: {path} is {value}"
            for path, value in files.items()
            if path.startswith("kubepods")
            and not path.endswith(".effective")
            and tag not in _BEFORE.values()
            and value != before.get(path, _NEW.get(path.rpartition("/")[2]))
        ]
    pods = [path for path in seen.files.get("first", {}) if path.startswith("kubepods")]
    return [
        Check(len(scripts) == 14 and not failed, f"{len(scripts)} scripts end with 0: {failed}"),
        Check(
            len(pods) > 3 and not touched,
            f"nothing is set on groups of pods: {'; '.join(touched) or f'{len(pods)} files'}",
        ),
        *(
            Check(
                all(bool(on) and on <= allowed for allowed, on in labels.values()),
                f"{tag}: {len(labels)} processes run on CPUs they may use",
            )
            for tag, labels in seen.runs.items()
        ),
    ]


def _files(seen: Seen, tag: str, wanted: Mapping[str, str]) -> Check:
    """All of these settings are so."""
    found = seen.files.get(tag, {})
    wrong = [
        f"{path} is {found.get(path)!r} instead of {value!r}"
        for path, value in wanted.items()
        if found.get(path) != value
    ]
    return Check(not wrong, f"{tag}: {len(wanted)} settings: {'; '.join(wrong) or 'as planned'}")


def _runs(seen: Seen, tag: str, wanted: Mapping[str, str]) -> Check:
    """All of these processes may use these CPUs, no more and no less."""
    found = {label: str(allowed) for label, (allowed, _) in seen.runs.get(tag, {}).items()}
    wrong = [
        f"{label} may use {found.get(label)} instead of {cpus}"
        for label, cpus in wanted.items()
        if found.get(label) != cpus
    ]
    text = f"{tag}: CPUs of {len(wanted)} processes"
    return Check(not wrong, f"{text}: {'; '.join(wrong) or 'as planned'}")


def _same(seen: Seen, tag: str, before: str, text: str, *, every: str = "0-3") -> Check:
    """Every file is as it was; a cpuset that the kernel does not empty has every CPU.

    ``every`` are those that are in no partition of others.
    """
    was, found = seen.files.get(before, {}), seen.files.get(tag, {})
    other = [
        f"{path}: {was.get(path)!r} -> {found.get(path)!r}"
        for path in sorted(was.keys() | found.keys())
        if was.get(path) != found.get(path)
        and not (path.endswith("/cpuset.cpus") and (was.get(path), found.get(path)) == ("", every))
    ]
    return Check(
        bool(was) and not other, f"{text}: {'; '.join(other) or f'{len(found)} files alike'}"
    )


def _says(seen: Seen, tag: str, text: str) -> Check:
    return Check(text in seen.said.get(tag, ""), f"{tag} says: {text}")
