"""What the commands that write node facts share: labels, what is kept, and the writing."""

from __future__ import annotations

import contextlib
import os
import shlex
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from compiler.commands.session import UsageError
from compiler.decode import decode
from compiler.diagnostics import Severity, Sink
from compiler.facts.write import facts_yaml
from compiler.model.facts import NodeFacts, Overrides
from compiler.source import parse_source, read_source


def parse_labels(labels: Sequence[str]) -> dict[str, str]:
    """Return the values of ``--label KEY=VALUE``.

    Raises:
        UsageError: one is not KEY=VALUE, or a key has two values.
    """
    pairs: dict[str, str] = {}
    for label in labels:
        key, eq, value = label.partition("=")
        if not eq or not key:
            raise UsageError(f"--label {label!r} is not KEY=VALUE")
        if pairs.setdefault(key, value) != value:
            raise UsageError(f"--label {key} is given twice, as {pairs[key]!r} and {value!r}")
    return pairs


def replaced(path: Path, *, force: bool) -> NodeFacts | None:
    """Return the facts that a file to be written holds now; None: there is no such file.

    Raises:
        UsageError: it is there and ``force`` is not given, or it is something else.
    """
    if not is_there(path):
        return None
    if path.is_dir():
        raise UsageError(f"{path} is a directory; name a file in it")
    if not path.is_file():
        raise UsageError(f"{path} is no regular file, and facts are written to files only")
    if not force:
        raise UsageError(
            f"{path} exists; give --force to replace it (labels and overrides are kept)"
        )
    sink = Sink()
    file = read_source(path.absolute().parent, path.name, sink)
    found = [decode(d, sink) for d in file.documents] if file is not None else []
    if len(found) == 1 and found[0] is not None and isinstance(found[0].model, NodeFacts):
        return found[0].model
    raise UsageError(f"{path} is not a NodeFacts document; move it away first")


def is_there(path: Path) -> bool:
    """Return whether there is something at a path that is to be written.

    Raises:
        UsageError: it cannot be told, such as below a directory of another user.
    """
    try:
        return path.exists()
    except OSError as error:
        raise UsageError(f"cannot write {path}: {(error.strerror or '').lower()}") from error


def require_parent(path: Path) -> None:
    """Refuse to write a file into a directory that is not there: its name may be a mistake.

    Raises:
        UsageError: there is no such directory.
    """
    parent = path.parent
    if is_there(path) or is_there(parent):
        return
    raise UsageError(
        f"cannot write {path}: there is no directory {parent}; create it (mkdir -p "
        f"{shlex.quote(str(parent))}), or correct the name"
    )


def completed(facts: NodeFacts, old: NodeFacts | None, labels: Mapping[str, str]) -> NodeFacts:
    """Add labels, and what people wrote into the file that is replaced.

    Its overrides count more than those of documents that are imported.
    """
    kept = old.metadata.labels if old is not None else {}
    labels = {**kept, **facts.metadata.labels, **labels}
    meta = facts.metadata.model_copy(update={"labels": labels})
    spec = facts.spec
    if old is not None and old.spec.overrides != Overrides():
        spec = spec.model_copy(update={"overrides": old.spec.overrides})
    return facts.model_copy(update={"metadata": meta, "spec": spec})


def moved_overrides(old: NodeFacts | None, facts: NodeFacts) -> list[str]:
    """Return a warning for each override that is kept and now means another device.

    Ids count devices in the order of their addresses, so one more device moves all after it.
    """
    if old is None:
        return []
    before = {one.id: one for one in old.spec.devices}
    after = {one.id: one for one in facts.spec.devices}
    warnings = []
    for override in old.spec.overrides.devices:
        was, now = before.get(override.id), after.get(override.id)
        if was is None:
            continue
        if now is None:
            warnings.append(f"overrides.devices: there is no {override.id} any more")
            continue
        keys = [(was.bdf, now.bdf), (was.uuid, now.uuid)]
        one, other = next(((a, b) for a, b in keys if a and b), (None, None))
        if one != other:
            warnings.append(
                f"overrides.devices: {override.id} was {one} and is {other} now; is what it says "
                "still meant?"
            )
    return warnings


def checked_yaml(facts: NodeFacts) -> str:
    """Return the YAML of facts.

    Raises:
        UsageError: a reader would refuse it, such as for a label that is none.
    """
    text = facts_yaml(facts)
    sink = Sink()
    for document in parse_source("facts.yaml", text.encode(), sink).documents:
        decode(document, sink)
    first = next((d for d in sink.sorted() if d.severity is Severity.ERROR), None)
    if first is not None:
        raise UsageError(f"{first.message}; {first.help}")
    return text


def write_all(texts: Mapping[Path, str]) -> None:
    """Write files, each in one step, all or none: a reader sees the old or the new one.

    Raises:
        OSError: one cannot be written; then all are as they were.
    """
    temporaries: dict[Path, Path] = {}
    before: dict[Path, Path | None] = {}
    try:
        for path, text in texts.items():
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                temporaries[path] = _temporary(path, text)
            except OSError as error:
                error.filename = os.fspath(path)  # and not the name of the temporary file
                raise
        for path, temporary in temporaries.items():
            before[path] = _set_aside(path)
            temporary.replace(path)
    except BaseException:
        for path, old in before.items():
            with contextlib.suppress(OSError):
                if old is not None:
                    old.replace(path)
                elif not temporaries[path].exists():
                    path.unlink(missing_ok=True)
        raise
    finally:
        for left in (*temporaries.values(), *before.values()):
            if left is not None:
                left.unlink(missing_ok=True)


def _temporary(path: Path, text: str) -> Path:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
            os.fchmod(stream.fileno(), 0o644)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return Path(name)


def _set_aside(path: Path) -> Path | None:
    """Keep another name of a file that is about to be replaced; None where there is none."""
    if not path.is_file():
        return None
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.old.")
    os.close(handle)
    Path(name).unlink()
    try:
        os.link(path, name)
    except OSError:  # a file system without hard links
        Path(name).write_bytes(path.read_bytes())
    return Path(name)
