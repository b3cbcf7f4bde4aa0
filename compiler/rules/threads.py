"""Threads that keep a node usable, as examples to try patterns on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from compiler.model.profile import WorkloadGroup
from compiler.plan import Condition
from compiler.resolve.conditions import parse_field


@dataclass(frozen=True, slots=True)
class SystemThread:
    """One thread, as the kernel shows it.

    Attributes:
        cgroup: where it runs; a guess where ``sure`` is false.
        kernel: whether it is a kernel thread, which has neither cgroup nor command line.
    """

    comm: str
    cgroup: str = ""
    cmdline: str = ""
    sure: bool = True
    kernel: bool = False


def _service(comm: str, unit: str, cmdline: str) -> SystemThread:
    return SystemThread(comm, f"system.slice/{unit}.service", cmdline)


KNOWN: Final = (
    SystemThread("systemd", "init.scope", "/sbin/init"),
    _service("sshd", "ssh", "sshd: /usr/sbin/sshd -D [listener] 0 of 10-100 startups"),
    _service("sshd", "sshd", "sshd: /usr/sbin/sshd -D [listener] 0 of 10-100 startups"),
    _service("sshd-session", "ssh", "sshd-session: root [priv]"),
    _service("sshd-session", "sshd", "sshd-session: root [priv]"),
    _service("kubelet", "kubelet", "/usr/bin/kubelet --config=/var/lib/kubelet/config.yaml"),
    SystemThread(
        "kubelet", "runtime.slice/kubelet.service", "/usr/bin/kubelet --config /etc/kubernetes"
    ),
    _service("containerd", "containerd", "/usr/bin/containerd"),
    SystemThread("containerd", "runtime.slice/containerd.service", "/usr/bin/containerd"),
    _service("dockerd", "docker", "/usr/bin/dockerd -H fd://"),
    _service(
        "cri-dockerd", "cri-docker", "/usr/bin/cri-dockerd --container-runtime-endpoint fd://"
    ),
    _service("crio", "crio", "/usr/bin/crio"),
    _service("k3s-server", "k3s", "/usr/local/bin/k3s server"),
    _service("k3s-agent", "k3s-agent", "/usr/local/bin/k3s agent"),
    _service("rke2", "rke2-server", "/usr/local/bin/rke2 server"),
    _service("rke2", "rke2-agent", "/usr/local/bin/rke2 agent"),
    _service("k0s", "k0scontroller", "/usr/local/bin/k0s controller --config=/etc/k0s/k0s.yaml"),
    _service("k0s", "k0sworker", "/usr/local/bin/k0s worker --token-file=/etc/k0s/token"),
    _service("kubelite", "snap.microk8s.daemon-kubelite", "/snap/microk8s/current/kubelite"),
    _service(
        "containerd", "snap.microk8s.daemon-containerd", "/snap/microk8s/current/bin/containerd"
    ),
    _service(
        "dbus-daemon",
        "dbus",
        "/usr/bin/dbus-daemon --system --address=systemd: --nofork --nopidfile",
    ),
    _service("dbus-broker-lau", "dbus-broker", "/usr/bin/dbus-broker-launch --scope system"),
    _service("systemd-journal", "systemd-journald", "/usr/lib/systemd/systemd-journald"),
    _service("systemd-logind", "systemd-logind", "/usr/lib/systemd/systemd-logind"),
    _service("systemd-udevd", "systemd-udevd", "/usr/lib/systemd/systemd-udevd"),
    _service("systemd-network", "systemd-networkd", "/usr/lib/systemd/systemd-networkd"),
    _service("systemd-resolve", "systemd-resolved", "/usr/lib/systemd/systemd-resolved"),
)
"""User processes whose cgroup is known: the defaults of Debian, Fedora, k3s, RKE2, k0s, MicroK8s,
and the slice ``runtime.slice`` that managed Kubernetes nodes use.  Most important first."""

KERNEL: Final = tuple(
    SystemThread(name, kernel=True)
    for name in (
        "kthreadd",
        "ksoftirqd/0",
        "migration/0",
        "rcu_preempt",
        "kworker/0:0",
        "kswapd0",
        "oom_reaper",
        "watchdogd",
        "jbd2/sda1-8",
        "nvme-wq",
    )
)
"""Kernel threads that everything waits for."""


def system_threads(group: WorkloadGroup) -> tuple[SystemThread, ...]:
    """Return the threads to try: those with a known place, the group's other names, the kernel's.

    Args:
        group: node-infra, whose names are exact.
    """
    known = {thread.comm for thread in KNOWN}
    names = dict.fromkeys(row.comm for row in group.spec.match if row.comm is not None)
    others = (
        SystemThread(name, f"system.slice/{name}.service", name, sure=False)
        for name in names
        if name not in known
    )
    return (*KNOWN, *others, *KERNEL)


def takes(condition: Condition, thread: SystemThread, *, sure: bool) -> bool:
    """Tell whether a condition has a thread.

    Args:
        sure: whether a guessed place is not enough.  A pod selector never has one of these.
    """
    if (condition.kthread is not None) != thread.kernel or condition.pods is not None:
        return False
    if condition.kthread is not None:
        return _matches("kthread", condition.kthread, thread.comm)
    if sure and not thread.sure and (condition.cgroup or condition.cmdline) is not None:
        return False
    for name, text, value in (
        ("comm", condition.comm, thread.comm),
        ("leader_comm", condition.leader_comm, thread.comm),
        ("cgroup", condition.cgroup, thread.cgroup),
        ("cmdline", condition.cmdline, thread.cmdline),
    ):
        if text is not None and not _matches(name, text, value):
            return False
    return True


@lru_cache(maxsize=65536)
def _matches(field: str, text: str, value: str) -> bool:
    return parse_field(field, text).matches(value)
