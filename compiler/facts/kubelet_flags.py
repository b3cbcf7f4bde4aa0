"""Options of the kubelet: its command line, and the files that hold parts of one.

The names of the options are those of ``kubelet --help``; each has a twin in the configuration
file, under whose name it is kept.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from typing import Final

from compiler.diagnostics import Severity, Sink
from compiler.facts.tree import Tree, clean
from compiler.source import Data, parse_source

# Option -> name in the configuration file.
_SETTINGS: Final[Mapping[str, str]] = {
    "cgroup-driver": "cgroupDriver",
    "cgroup-root": "cgroupRoot",
    "cgroups-per-qos": "cgroupsPerQOS",
    "container-runtime-endpoint": "containerRuntimeEndpoint",
    "cpu-manager-policy": "cpuManagerPolicy",
    "reserved-cpus": "reservedSystemCPUs",
    "topology-manager-policy": "topologyManagerPolicy",
}
_POLICY_OPTIONS: Final = "cpu-manager-policy-options"
_PLACES: Final = frozenset({"config", "config-dir", "root-dir"})

_MICROK8S_ARGS: Final = "/var/snap/microk8s/current/args/kubelet"
_SNAP: Final = {
    "${SNAP_DATA}": "/var/snap/microk8s/current",
    "$SNAP_DATA": "/var/snap/microk8s/current",
    "${SNAP_COMMON}": "/var/snap/microk8s/common",
    "$SNAP_COMMON": "/var/snap/microk8s/common",
}
# kubeadm's own file first, then the operator's, as in its systemd unit: the last one wins.
_ENV_FILES: Final = (
    ("/var/lib/kubelet/kubeadm-flags.env", "KUBELET_KUBEADM_ARGS"),
    ("/etc/default/kubelet", "KUBELET_EXTRA_ARGS"),
    ("/etc/sysconfig/kubelet", "KUBELET_EXTRA_ARGS"),
)


def parse_flags(words: Iterable[str]) -> dict[str, Data]:
    """Return the options that matter, settings by their name in the configuration file.

    ``config``, ``config-dir`` and ``root-dir`` keep their names.  Values are texts as written; the
    last of several wins.  ``--name=value``, ``--name value`` and one dash are accepted.
    """
    found: dict[str, Data] = {}
    waiting: str | None = None
    for word in words:
        if waiting is not None:
            _add(found, waiting, word)
            waiting = None
            continue
        if not word.startswith("-"):
            continue
        name, equals, value = word.lstrip("-").partition("=")
        if not _is_known(name):
            continue
        if equals:
            _add(found, name, value)
        elif name == "cgroups-per-qos":
            _add(found, name, "true")
        else:
            waiting = name
    return found


def _is_known(name: str) -> bool:
    return name in _SETTINGS or name in _PLACES or name == _POLICY_OPTIONS


def _add(found: dict[str, Data], name: str, value: str) -> None:
    if name == _POLICY_OPTIONS:
        pairs = (item.partition("=") for item in value.split(","))
        found["cpuManagerPolicyOptions"] = {key.strip(): text.strip() for key, _, text in pairs}
    else:
        found[_SETTINGS.get(name, name)] = value


def read_flag_files(tree: Tree) -> dict[str, Data]:
    """Return the options in the files that start the kubelet, for want of its process.

    MicroK8s keeps them all in one file, kubeadm in files of environment variables.  The
    configuration of k3s and RKE2 (``/etc/rancher``) is not read: it may hold the cluster's token.
    """
    if (text := tree.text(_MICROK8S_ARGS)) is not None:
        lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
        found = "\n".join(lines)
        for name, place in _SNAP.items():
            found = found.replace(name, place)
        return parse_flags(_words(tree, _MICROK8S_ARGS, found))
    flags: dict[str, Data] = {}
    for path, variable in _ENV_FILES:
        for line in (tree.text(path) or "").splitlines():
            name, _, value = line.strip().partition("=")
            if name.removeprefix("export ").strip() == variable:
                # The value is quoted once for the file, and may quote words inside.
                whole = " ".join(_words(tree, path, value))
                flags |= parse_flags(_words(tree, path, whole))
    return flags


def _words(tree: Tree, path: str, text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        tree.warn(f"{path}: {clean(str(error)).lower()}; its options are not used")
        return []


def read_mapping(tree: Tree, path: str) -> dict[str, Data] | None:
    """Return the first document of a small YAML or JSON file; None, with a warning, if unusable."""
    text = tree.text(path)
    if text is None:
        return None
    sink = Sink()
    form = "json" if text.lstrip().startswith("{") else "yaml"
    source = parse_source(f"file.{form}", text.encode(), sink)
    errors = [one.message for one in sink.sorted() if one.severity is Severity.ERROR]
    if errors:
        tree.warn(f"{path}: not used: {clean(errors[0])}")
        return None
    data = source.documents[0].data if source.documents else {}
    if not isinstance(data, dict):
        tree.warn(f"{path}: not used: not a mapping")
        return None
    return data
