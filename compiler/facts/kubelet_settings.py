"""How the kubelet was told to work: its options and its configuration, as one.

The order of the kubelet (``kubelet --help``): the configuration file, then the files of its
drop-in directory by name, then options, each over the one before.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from compiler.cpuset import CpuListError, CpuSet
from compiler.facts.kubelet_flags import parse_flags, read_flag_files, read_mapping
from compiler.facts.kubelet_process import KubeletProcess
from compiler.facts.pods import Driver, expected_root
from compiler.facts.tree import Tree, clean, shown
from compiler.source import Data

MICROK8S: Final = "/var/snap/microk8s"
K0S: Final = "/var/lib/k0s"
RANCHER: Final = ("/var/lib/rancher/k3s", "/var/lib/rancher/rke2")

# Where distributions keep the configuration file; the first that is one is taken.
_CONFIGS: Final = (
    "/var/lib/kubelet/config.yaml",  # kubeadm, kind, minikube
    "/etc/kubernetes/kubelet.conf",  # OpenShift; of kubeadm it is a kubeconfig, which is no config
    "/etc/kubernetes/kubelet/config.json",  # EKS, Amazon Linux 2023
    "/etc/kubernetes/kubelet/kubelet-config.json",  # EKS, Amazon Linux 2
    "/etc/kubernetes/kubelet/config",  # Bottlerocket
    "/etc/kubernetes/kubelet.yaml",  # Talos
    "/home/kubernetes/kubelet-config.yaml",  # GKE
    "/etc/default/kubeletconfig.json",  # AKS
    f"{K0S}/kubelet-config.yaml",
    f"{MICROK8S}/common/var/lib/kubelet/config.yaml",
)
_DROP_INS: Final = (
    "/etc/kubernetes/kubelet.conf.d",
    "/etc/openshift/kubelet.conf.d",
    "/etc/kubernetes/kubelet/config.json.d",
    *(f"{place}/agent/etc/kubelet.conf.d" for place in RANCHER),
)
_INSTANCE: Final = "/var/lib/kubelet/instance-config.yaml"
_MAX_DROP_INS: Final = 100
_PATH: Final = re.compile(r"(?:/[A-Za-z0-9_.@:+-]{1,80}){1,16}")


@dataclass(frozen=True, slots=True)
class Settings:
    """What the kubelet was told, under the names of its configuration file.

    Attributes:
        values: the settings found; what is missing is unknown, or has its default if ``complete``.
        complete: whether the kubelet's own command line and every file it names were read.
        configured: whether a configuration file was read.
        root_dir: the kubelet's directory, where an option gives it.
    """

    values: Mapping[str, Data] = field(default_factory=lambda: MappingProxyType({}))
    complete: bool = False
    configured: bool = False
    root_dir: str | None = None

    def text(self, name: str) -> str | None:
        """Return a setting as a short plain text; None if it is not there or empty."""
        value = self.values.get(name)
        if isinstance(value, bool):
            return "true" if value else "false"
        if not isinstance(value, str | int):
            return None
        return clean(str(value), 200) or None

    def word(self, name: str) -> str | None:
        """Return a setting that is one word in lower case, such as a policy."""
        text = self.text(name)
        return text if text is not None and re.fullmatch(r"[a-z][a-z-]{0,39}", text) else None

    @property
    def driver(self) -> Driver | None:
        """``cgroupDriver``."""
        text = self.text("cgroupDriver")
        return "systemd" if text == "systemd" else "cgroupfs" if text == "cgroupfs" else None

    @property
    def pods_root(self) -> str | None:
        """The pods root that these settings lead to; None: the driver is not known."""
        if self.driver is None or self.text("cgroupsPerQOS") == "false":
            return None
        return expected_root(self.driver, self.text("cgroupRoot") or "/")

    @property
    def strict_reservation(self) -> bool | None:
        """The option ``strict-cpu-reservation`` of the CPU manager's policy; None: not said."""
        options = self.values.get("cpuManagerPolicyOptions")
        value = options.get("strict-cpu-reservation") if isinstance(options, dict) else None
        if value in ("true", True):
            return True
        return False if value in ("false", False) or self.complete else None

    @property
    def cri_socket(self) -> str | None:
        """``containerRuntimeEndpoint`` as a path; None if it is not there or no socket's."""
        text = self.text("containerRuntimeEndpoint") or ""
        return plain_path(text.removeprefix("unix://").removeprefix("unix:"))

    def reserved(self, tree: Tree) -> CpuSet | None:
        """Return ``reservedSystemCPUs``; None if not set, or not a CPU list (a warning)."""
        text = self.text("reservedSystemCPUs")
        if text is None:
            return None
        try:
            return CpuSet.parse(text)
        except CpuListError as error:
            tree.warn(f"reservedSystemCPUs of the kubelet: {clean(str(error))}")
            return None


def plain_path(text: str) -> str | None:
    """Return an absolute path without surprises, ``/var/run`` as the ``/run`` it is."""
    if text.startswith("/var/run/"):
        text = text.removeprefix("/var")
    text = text.rstrip("/")
    return text if _PATH.fullmatch(text) and ".." not in text.split("/") else None


def read_settings(tree: Tree, process: KubeletProcess) -> Settings:
    """Return how the kubelet was told to work.

    Args:
        tree: the machine's files.
        process: the running kubelet.  Its options count alone; without one those in the files that
            start it, and the configuration where distributions keep it.
    """
    options = process.arguments
    flags = read_flag_files(tree) if options is None else parse_flags(options)
    named = isinstance(flags.get("config"), str)
    values = _config_file(tree, flags, guess=options is None)
    complete = options is not None and (values is not None or not named)
    merged: dict[str, Data] = dict(values or {})
    for directory in _drop_in_directories(tree, flags, guess=options is None):
        for name in [one for one in tree.names(directory) if one.endswith(".conf")][:_MAX_DROP_INS]:
            more = _configuration(tree, f"{directory}/{name}")
            complete = complete and more is not None
            _merge(merged, more or {})
    _merge(merged, {key: value for key, value in flags.items() if "-" not in key})
    if "containerRuntimeEndpoint" not in merged:
        # kubeadm 1.32 and later: what is this node's own; it becomes a part of config.yaml.
        instance = _configuration(tree, _INSTANCE) if tree.is_file(_INSTANCE) else None
        if instance and isinstance(endpoint := instance.get("containerRuntimeEndpoint"), str):
            merged["containerRuntimeEndpoint"] = endpoint
    root = flags.get("root-dir")
    return Settings(
        values=MappingProxyType(merged),
        complete=complete,
        configured=values is not None,
        root_dir=plain_path(root) if isinstance(root, str) else None,
    )


def _config_file(tree: Tree, flags: Mapping[str, Data], *, guess: bool) -> dict[str, Data] | None:
    path = flags.get("config")
    if isinstance(path, str):
        if tree.is_file(path):
            return _configuration(tree, path)
        tree.warn(f"{clean(path)}: the kubelet's configuration cannot be read")
        return None
    if guess:
        for known in _CONFIGS:
            if tree.is_file(known) and (found := _configuration(tree, known)) is not None:
                return found
    return None


def _configuration(tree: Tree, path: str) -> dict[str, Data] | None:
    """Read a KubeletConfiguration; None where the file is none."""
    content = read_mapping(tree, path)
    kind = content.get("kind", "KubeletConfiguration") if content is not None else None
    if kind == "KubeletConfiguration":
        return content
    if kind is not None and kind != "Config":  # a kubeconfig is nobody's mistake
        tree.warn(f"{path}: not used: its kind is {shown(str(kind))}, not KubeletConfiguration")
    return None


def _drop_in_directories(tree: Tree, flags: Mapping[str, Data], *, guess: bool) -> list[str]:
    path = flags.get("config-dir")
    if isinstance(path, str):
        return [path]
    return [known for known in _DROP_INS if tree.is_dir(known)] if guess else []


def _merge(into: dict[str, Data], more: Mapping[str, Data]) -> None:
    """Lay settings over others: mappings key by key, all else whole."""
    for key, value in more.items():
        old = into.get(key)
        into[key] = {**old, **value} if isinstance(old, dict) and isinstance(value, dict) else value
