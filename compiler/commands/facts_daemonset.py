"""``tierc facts daemonset``."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from compiler.commands.session import OK, fail
from compiler.facts.daemonset.manifest import NAME, Options, manifest
from compiler.model.texts import is_label, is_name
from compiler.report.cells import printable

# Registry and path, tag, digest; what else there may be is the registry's business.
_IMAGE: Final = re.compile(r"[a-z0-9][A-Za-z0-9._:/-]{0,254}(@sha256:[0-9a-f]{64})?")
_DIRECTORY: Final = re.compile(r"(?:/[A-Za-z0-9_.@+-]{1,80}){1,16}")
_OS: Final = "kubernetes.io/os"
# Directories of the Filesystem Hierarchy Standard that hold much else: a pod has no business there.
_NOT_KUBELETS: Final = re.compile(
    r"/(?:(?:boot|dev|etc|home|proc|root|run|sys|tmp)(?:/.*)?"
    r"|(?:bin|lib\w*|media|mnt|opt|sbin|srv|usr|var)(?:/(?:lib|local|run|cache|log))?)"
)


def run(
    out: Path | None,
    namespace: str,
    image: str,
    selector: Sequence[str],
    kubelet_root: str | None,
    *,
    create_namespace: bool,
    force: bool,
) -> int:
    """Print or write the manifest; return the exit code."""
    if not is_name(namespace):
        return fail(f"--namespace {printable(namespace)!r} is not the name of a namespace")
    if not _IMAGE.fullmatch(image):
        return fail(f"--image {printable(image)!r} is not the name of an image")
    labels: dict[str, str] = {}
    for one in selector:
        key, equals, value = one.partition("=")
        if not equals or not is_label(key, value):
            return fail(f"--selector {printable(one)!r} is not KEY=VALUE of a label")
        if labels.setdefault(key, value) != value:
            return fail(f"--selector {key} is given twice, as {labels[key]!r} and {value!r}")
    if labels.get(_OS, "linux") != "linux":
        return fail(f"--selector {_OS}={labels[_OS]}: the collector reads Linux nodes only")
    if kubelet_root is not None:
        if not _DIRECTORY.fullmatch(kubelet_root) or {".", ".."} & set(kubelet_root.split("/")):
            return fail(f"--kubelet-root {printable(kubelet_root)!r} is not an absolute path")
        if _NOT_KUBELETS.fullmatch(kubelet_root):
            return fail(
                f"--kubelet-root {kubelet_root} is a directory of the system; it is the kubelet's "
                "--root-dir, such as /var/lib/kubelet"
            )
    options = Options(namespace, create_namespace, image, labels, kubelet_root)
    text = manifest(options)
    if out is None or str(out) == "-":
        sys.stdout.write(text)
        return OK
    where = printable(str(out))
    try:
        if out.exists() and not force:
            return fail(f"{where} exists; give --force to replace it")
        _write(out, text)
    except OSError as error:
        return fail(f"cannot write {where}: {(error.strerror or '').lower()}")
    print(
        f"{where}: DaemonSet {namespace}/{NAME}; next: kubectl apply -f {where}",
        file=sys.stderr,
    )
    return OK


def _write(path: Path, text: str) -> None:
    """Write a file as a whole or not at all."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise
