"""Abilities of the kernel, and whether the machine is virtual."""

from __future__ import annotations

import re
from typing import Final, Literal

from compiler.cpuset import CpuListError, CpuSet
from compiler.facts.cpuinfo import CpuInfo
from compiler.facts.tree import Tree, clean
from compiler.model.facts import Kernel, SchedExt, Virtualization

CGROUPS: Final = "/sys/fs/cgroup"
_MOUNT_BYTES: Final = 4 * 1024 * 1024
_SCHED_EXT: Final = "/sys/kernel/sched_ext"
CPU_OPTIONS: Final = frozenset(
    {
        "isolcpus",
        "nohz_full",
        "rcu_nocbs",
        "threadirqs",
        "nosmt",
        "maxcpus",
        "nr_cpus",
        "irqaffinity",
    }
)
"""Options of the kernel's command line that concern CPUs; no other leaves the machine."""
_WORD: Final = re.compile(r'(?:[^\s"]|"[^"]*"?)+')
_RELEASE: Final = re.compile(r"Linux version (\S+)")

# (text in DMI sys_vendor or product_name, lower case) -> hypervisor.
_DMI: Final = (
    ("vmware", "vmware"),
    ("virtualbox", "virtualbox"),
    ("innotek", "virtualbox"),
    ("qemu", "qemu"),
    ("kvm", "kvm"),
    ("xen", "xen"),
    ("hvm domu", "xen"),
    ("virtual machine", "hyperv"),
    ("google compute engine", "google"),
    ("openstack", "openstack"),
    ("parallels", "parallels"),
    ("bhyve", "bhyve"),
    ("alibaba cloud ecs", "alibaba"),
)


def read_kernel(tree: Tree, *, live: bool) -> Kernel:
    """Return what the kernel can do.

    A file that is missing means "cannot" on the running machine only: a snapshot may simply lack
    it, so there it means unknown.
    """
    version = tree.text("/proc/version") or ""
    release = tree.line("/proc/sys/kernel/osrelease")
    if not release and (match := _RELEASE.match(version)):
        release = match[1]
    return Kernel(
        release=clean(release, 80) if release else None,
        preemptRt=_preempt_rt(tree, version),
        btf=_there(tree.is_file("/sys/kernel/btf/vmlinux"), live),
        schedExt=_sched_ext(tree, live),
        cgroup=_cgroup(tree, live),
        cmdline=_cmdline(tree),
    )


def _there(seen: bool, live: bool) -> bool | None:
    return seen if seen or live else None


def _preempt_rt(tree: Tree, version: str) -> bool | None:
    if tree.line("/sys/kernel/realtime") == "1":
        return True
    text = tree.line("/proc/sys/kernel/version") or version
    return bool(re.search(r"\bPREEMPT_RT\b|\bPREEMPT RT\b", text)) if text else None


def _sched_ext(tree: Tree, live: bool) -> SchedExt | None:
    if not tree.is_dir(_SCHED_EXT):
        return SchedExt(supported=False) if live else None
    state, ops = tree.line(f"{_SCHED_EXT}/state"), tree.line(f"{_SCHED_EXT}/root/ops")
    return SchedExt(
        supported=True,
        state=clean(state, 40) if state else None,
        ops=clean(ops, 128) if ops else None,
    )


def _cgroup(tree: Tree, live: bool) -> Literal["v2", "hybrid", "v1", "none"] | None:
    if tree.is_file(f"{CGROUPS}/cgroup.controllers"):
        return "v2"
    types = {
        words[2]
        for line in _mounts(tree).splitlines()
        if len(words := line.split()) >= 4 and words[2] in ("cgroup", "cgroup2", "cpuset")
    }
    # A snapshot need not have the mounts: the directories of v1 controllers tell it too.
    old = bool(types & {"cgroup", "cpuset"}) or any(
        tree.is_dir(f"{CGROUPS}/{name}") for name in ("cpuset", "memory", "cpu")
    )
    new = "cgroup2" in types or tree.is_file(f"{CGROUPS}/unified/cgroup.controllers")
    if old or new:
        return "hybrid" if old and new else ("v2" if new else "v1")
    return "none" if live else None


def _mounts(tree: Tree) -> str:
    # /proc/mounts is a link to it, which snapshots leave out.
    return tree.text("/proc/self/mounts", limit=_MOUNT_BYTES) or (
        tree.text("/proc/mounts", limit=_MOUNT_BYTES) or ""
    )


def cmdline_words(text: str) -> tuple[str, ...]:
    """Split a kernel command line; double quotes keep spaces together."""
    return tuple(_WORD.findall(text))


def _cmdline(tree: Tree) -> str | None:
    """Return the options that concern CPUs; empty when there are none, None when unknown.

    The rest stays out: it may hold what nobody wants in a repository.
    """
    text = tree.line("/proc/cmdline")
    if text is None:
        return None
    options = [w for w in cmdline_words(text) if w.partition("=")[0] in CPU_OPTIONS]
    return clean(" ".join(options), 1024)


def cpus_of_option(tree: Tree, option: str) -> CpuSet | None:
    """Return the CPUs of ``isolcpus=`` or ``nohz_full=``, for kernels without the sysfs file.

    Without the option it is the empty set.  ``isolcpus`` isolates from load balancing, which is
    what we mean, without flags or with the flag ``domain``.  None: the command line is unknown,
    or the list is in a form only that machine can resolve (``all``, ``N``, ``~``).
    """
    text = tree.line("/proc/cmdline")
    if text is None:
        return None
    values = [w.partition("=")[2] for w in cmdline_words(text) if w.startswith(f"{option}=")]
    if not values:
        return CpuSet()
    items = values[-1].split(",")
    flags = [item for item in items if item in ("nohz", "domain", "managed_irq")]
    if flags and "domain" not in flags:
        return CpuSet()
    try:
        return CpuSet.parse(",".join(item for item in items if item not in flags))
    except CpuListError as error:
        tree.warn(f"/proc/cmdline: {option}: {clean(str(error))}")
        return None


def read_virtualization(tree: Tree, info: CpuInfo, *, live: bool) -> Virtualization:
    """Return whether the CPUs are virtual, and whether the collector runs in a container."""
    name = _hypervisor(tree)
    vm: bool | None = None
    if name is not None or (info.hypervisor and not _is_dom0(tree)):
        vm = True
    elif info.hypervisor is not True and tree.line("/sys/class/dmi/id/sys_vendor"):
        # That x86 announces no hypervisor proves nothing: some are silent.
        vm = False
    return Virtualization(vm=vm, hypervisor=name, container=_container(tree, live))


def _is_dom0(tree: Tree) -> bool:
    return "control_d" in (tree.text("/proc/xen/capabilities") or "")


def _hypervisor(tree: Tree) -> str | None:
    kind = tree.line("/sys/hypervisor/type")
    if kind and not _is_dom0(tree):
        return clean(kind, 40)
    vendor = (tree.line("/sys/class/dmi/id/sys_vendor") or "").lower()
    product = (tree.line("/sys/class/dmi/id/product_name") or "").lower()
    if vendor == "amazon ec2":
        return None if product.endswith(".metal") or ".metal-" in product else "amazon"
    for text, name in _DMI:
        if text in vendor or text in product:
            return name
    return None


_MARKERS: Final = ("/run/.containerenv", "/.dockerenv", "/run/systemd/container")
# Inode numbers of the first namespaces, fixed by the kernel (include/linux/proc_ns.h).
_FIRST_NAMESPACES: Final = (("cgroup", 0xEFFFFFFB), ("pid", 0xEFFFFFFC))


def _container(tree: Tree, live: bool) -> bool | None:
    if any(tree.is_file(marker) for marker in _MARKERS):
        return True
    if not live:
        return None
    for kind, first in _FIRST_NAMESPACES:
        link = tree.link(f"/proc/self/ns/{kind}")
        if link is None:
            return None
        if link != f"{kind}:[{first}]":
            return True
    return False
