"""Processes without which a node is lost, as machines show them: names, cgroups, command lines.

Names are those of the kernel, cut to 15 bytes.  Cgroups are those of systemd hosts: packages of
distributions and vendors, ``runtime.slice`` of managed Kubernetes nodes, and distributions of
Kubernetes that run kubelet and container runtime inside a service of their own.  Command lines are
given for each usual place of a program, as a pattern may name one directory; NUL is a space.

Sources: the units of kubeadm, containerd, Docker, CRI-O and cri-dockerd packages; ``systemctl
status`` and ``ps`` of k3s, RKE2, k0s and MicroK8s nodes in public threads; the release notes of
OpenSSH 9.8 (sshd-session) and 10.0 (sshd-auth).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple


class Process(NamedTuple):
    """One process in one place."""

    comm: str
    cgroup: str
    commands: tuple[str, ...]
    """Command lines it may have, the most usual first."""


def _in(cgroups: Sequence[str], comm: str, *commands: str) -> Iterator[Process]:
    for cgroup in cgroups:
        yield Process(comm, cgroup, commands)


def _under(directories: Sequence[str], command: str) -> tuple[str, ...]:
    return tuple(f"{directory}/{command}" for directory in directories)


_BIN: Final = ("/usr/bin", "/usr/local/bin", "/opt/bin", "/usr/sbin", "/usr/local/sbin")
_SSH: Final = ("system.slice/ssh.service", "system.slice/sshd.service")
_K3S: Final = ("system.slice/k3s.service", "system.slice/k3s-agent.service")
_RKE2: Final = ("system.slice/rke2-server.service", "system.slice/rke2-agent.service")
_K0S: Final = ("system.slice/k0scontroller.service", "system.slice/k0sworker.service")
_SHIM: Final = "containerd-shim-runc-v2 -namespace k8s.io -id 0a1b -address /run/containerd.sock"

NODE_SOFTWARE: Final[tuple[Process, ...]] = (
    *_in(
        ["init.scope"],
        "systemd",
        "/sbin/init",
        "/usr/lib/systemd/systemd --switched-root --system --deserialize 31",
        "/lib/systemd/systemd --system --deserialize 31",
    ),
    # the kubelet and container runtimes as packages install them
    *_in(
        ["system.slice/kubelet.service", "runtime.slice/kubelet.service"],
        "kubelet",
        *_under([*_BIN, "/home/kubernetes/bin"], "kubelet --config=/var/lib/kubelet/config.yaml"),
    ),
    *_in(
        ["system.slice/containerd.service", "runtime.slice/containerd.service"],
        "containerd",
        *_under([*_BIN, "/home/containerd/usr/local/bin"], "containerd"),
    ),
    *_in(
        ["system.slice/containerd.service", "runtime.slice/containerd.service"],
        "containerd-shim",
        *_under(_BIN, _SHIM),
    ),
    *_in(
        ["system.slice/docker.service"],
        "dockerd",
        *_under(_BIN, "dockerd -H fd:// --containerd=/run/containerd/containerd.sock"),
    ),
    *_in(
        ["system.slice/snap.docker.dockerd.service"],
        "dockerd",
        "dockerd --group docker --exec-root=/run/snap.docker",
    ),
    *_in(
        ["system.slice/cri-docker.service"],
        "cri-dockerd",
        *_under(_BIN, "cri-dockerd --container-runtime-endpoint fd://"),
    ),
    *_in(
        ["system.slice/crio.service", "runtime.slice/crio.service"], "crio", *_under(_BIN, "crio")
    ),
    # k3s: one process and what it unpacks
    *_in(_K3S[:1], "k3s-server", *_under(_BIN, "k3s server")),
    *_in(_K3S[1:], "k3s-agent", *_under(_BIN, "k3s agent")),
    *_in(
        _K3S,
        "containerd",
        "containerd -c /var/lib/rancher/k3s/agent/etc/containerd/config.toml",
        "containerd ",
    ),
    *_in(_K3S, "containerd-shim", f"/var/lib/rancher/k3s/data/0a1b/bin/{_SHIM}"),
    # RKE2: kubelet and runtime are children of its service
    *_in(_RKE2[:1], "rke2", *_under(_BIN, "rke2 server")),
    *_in(_RKE2[1:], "rke2", *_under(_BIN, "rke2 agent")),
    *_in(_RKE2, "kubelet", "kubelet --volume-plugin-dir=/var/lib/kubelet/volumeplugins"),
    *_in(
        _RKE2,
        "containerd",
        "containerd -c /var/lib/rancher/rke2/agent/etc/containerd/config.toml",
    ),
    *_in(_RKE2, "containerd-shim", f"/var/lib/rancher/rke2/data/v1-0a1b/bin/{_SHIM}"),
    # k0s: the same
    *_in(_K0S[:1], "k0s", *_under(_BIN, "k0s controller --config=/etc/k0s/k0s.yaml")),
    *_in(_K0S[1:], "k0s", *_under(_BIN, "k0s worker --token-file=/etc/k0s/token")),
    *_in(_K0S, "kubelet", "/var/lib/k0s/bin/kubelet --root-dir=/var/lib/k0s/kubelet"),
    *_in(_K0S, "containerd", "/var/lib/k0s/bin/containerd --root=/var/lib/k0s/containerd"),
    *_in(_K0S, "containerd-shim", f"/var/lib/k0s/bin/{_SHIM}"),
    # snaps: MicroK8s (kubelet and control plane in one process), before 1.21 apart
    *_in(
        ["system.slice/snap.microk8s.daemon-kubelite.service"],
        "kubelite",
        *_under(
            ["/snap/microk8s/2379", "/snap/microk8s/current"], "kubelite --start-control-plane"
        ),
    ),
    *_in(
        ["system.slice/snap.microk8s.daemon-kubelet.service"],
        "kubelet",
        "/snap/microk8s/1079/kubelet --client-ca-file=/var/snap/microk8s/1079/certs/ca.crt",
    ),
    *_in(
        ["system.slice/snap.microk8s.daemon-containerd.service"],
        "containerd",
        "/snap/microk8s/2379/bin/containerd --config /var/snap/microk8s/2379/args/containerd.toml",
    ),
    *_in(
        ["system.slice/snap.microk8s.daemon-containerd.service"],
        "containerd-shim",
        f"/snap/microk8s/2379/bin/{_SHIM}",
    ),
    # logins; what runs after them is in user.slice
    *_in(
        _SSH,
        "sshd",
        "sshd: /usr/sbin/sshd -D [listener] 0 of 10-100 startups",
        "/usr/sbin/sshd -D",
        "/usr/local/sbin/sshd -D",
    ),
    *_in(
        _SSH,
        "sshd-session",
        "sshd-session: root [priv]",
        *_under(
            ["/usr/lib/openssh", "/usr/libexec/openssh", "/usr/lib/ssh", "/usr/libexec/ssh"],
            "sshd-session",
        ),
    ),
    *_in(
        _SSH,
        "sshd-auth",
        "sshd-auth: root [net]",
        *_under(
            ["/usr/lib/openssh", "/usr/libexec/openssh", "/usr/lib/ssh", "/usr/libexec/ssh"],
            "sshd-auth",
        ),
    ),
)
"""By importance: the first of a name is the place that messages show."""
