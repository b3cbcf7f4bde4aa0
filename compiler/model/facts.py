"""NodeFacts: what a node is, as portable data.

Unknown is null (a key left out), never a guess.  CPU-indexed facts are range-compressed: a fleet
of 1,000 nodes with a row per CPU would be too slow to read and impossible to review.
"""

from collections import Counter
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from compiler.cpuset import CpuSet, union
from compiler.model.base import CgroupPath, CpuList, Misfit, Model, NodeMetadata

CoreKind = Literal["performance", "efficiency", "lowpower", "standard"]
Bdf = Annotated[str, Field(pattern=r"^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$")]
"""PCI address: domain:bus:device.function, lower-case hexadecimal."""


class Cpus(Model):
    """Kernel masks of the machine."""

    possible: CpuList | None = None
    present: CpuList | None = None
    online: CpuList
    isolated: CpuList | None = None
    """``isolcpus=``; null: unknown."""
    nohz_full: CpuList | None = None
    allowed: CpuList | None = None
    """What the cgroup of the collector or the operator allows; null: all."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if not self.online:
            raise Misfit("online is empty; a machine has at least one CPU", ("online",))
        for name in ("present", "possible"):
            wider: CpuSet | None = getattr(self, name)
            if wider is not None and not self.online <= wider:
                raise Misfit(
                    f"online CPUs {self.online - wider} are not in {name} ({wider})",
                    (name,),
                    ("online",),
                )
        return self


class CoreGroup(Model):
    """Cores that share an LLC, a NUMA node, a package and a kind."""

    cpus: CpuList
    """All logical CPUs of the group."""
    smt: tuple[CpuList, ...] = ()
    """Sibling planes: the n-th CPUs of all lists form one core.  ``[0-7, 8-15]`` pairs 0 with 8,
    1 with 9 and so on; ``[0-14:1/2, 1-15:1/2]`` pairs neighbours.  Omitted: one CPU a core."""
    llc: Annotated[int, Field(ge=0)] | None = None
    """Id of the last-level cache."""
    numa: Annotated[int, Field(ge=0)] | None = None
    """Id of the NUMA node."""
    package: Annotated[int, Field(ge=0)] | None = None
    """Id of the socket."""
    die: Annotated[int, Field(ge=0)] | None = None
    """Id of the die; only unique within its package."""
    cluster: Annotated[int, Field(ge=0)] | None = None
    """Id of the cluster (cores that share an L2 or a snoop filter), as the machine numbers it."""
    kind: CoreKind = "standard"
    capacity: Annotated[int, Field(ge=1)] | None = None
    """The kernel's ``cpu_capacity`` (1024 = the fastest CPU), where it is known."""

    @model_validator(mode="after")
    def _planes_fit(self) -> Self:
        if not self.cpus:
            raise Misfit("cpus is empty; leave the group out", ("cpus",))
        if not self.smt:
            return self
        if len({len(plane) for plane in self.smt}) > 1:
            raise Misfit("smt lists have different lengths, so their CPUs do not pair up", ("smt",))
        if union(self.smt) != self.cpus or sum(map(len, self.smt)) != len(self.cpus):
            raise Misfit(f"smt lists must together name each of cpus {self.cpus} once", ("smt",))
        return self

    def cores(self) -> tuple[CpuSet, ...]:
        """Return the sibling set of each core, ordered by lowest CPU."""
        if not self.smt:
            return tuple(CpuSet((cpu,)) for cpu in self.cpus)
        return tuple(
            sorted((CpuSet(core) for core in zip(*self.smt, strict=True)), key=lambda c: c.lowest)
        )


class KindRow(Model):
    """One kind of core, and what says that it is one.

    Only on machines with several kinds; where all cores are alike, or nothing tells them apart,
    they are ``standard`` and no row is needed.
    """

    name: CoreKind
    cpus: CpuList
    evidence: Literal["pmu", "midr", "cpukind", "figure"]
    """``pmu``: the performance counters they belong to (Intel); ``midr``: their model register
    (Arm); ``cpukind``: hwloc's grouping; ``figure``: a performance figure with a clear gap."""
    model: str | None = None
    """Such as Cortex-X925."""
    figure: str | None = None
    """The source of ``value``, such as ``cpufreq/cpuinfo_max_freq``."""
    value: Annotated[int, Field(ge=1)] | None = None
    """The largest value of ``figure`` on these CPUs, which ranked the kind."""


class Llc(Model):
    """A last-level cache."""

    id: Annotated[int, Field(ge=0)]
    level: Annotated[int, Field(ge=1, le=5)]
    cpus: CpuList
    size_kib: Annotated[int, Field(ge=1)] | None = Field(default=None, alias="sizeKiB")


class Numa(Model):
    """A NUMA node."""

    id: Annotated[int, Field(ge=0)]
    cpus: CpuList
    """May be empty: GPU or CXL memory."""
    memory_mib: Annotated[int, Field(ge=0)] | None = Field(default=None, alias="memoryMiB")
    distances: tuple[Annotated[int, Field(ge=0)], ...] = ()
    """To every node, in ascending order of node id; empty: unknown."""
    role: Literal["cpu", "memory", "gpu-memory", "unknown"] = "unknown"


class Locality(Model):
    """Which CPUs are near a device, and how that is known."""

    cpus: CpuList | None = None
    """null: unknown."""
    scope: Literal["llc", "numa", "package", "machine", "unknown"] = "unknown"
    confidence: Literal["measured", "inferred", "suspect", "unknown"] = "unknown"


class Device(Model):
    """A GPU or network device."""

    id: str
    """Short name unique on the node, such as gpu0."""
    type: Literal["gpu", "nic", "other"]
    vendor: str | None = None
    """PCI vendor id, four hexadecimal digits."""
    model: str | None = None
    bdf: Bdf | None = None
    uuid: str | None = None
    index: Annotated[int, Field(ge=0)] | None = None
    """What the vendor's tool calls it (``nvidia-smi``'s GPU 0), only where a source says so."""
    parent: str | None = None
    """Id of the device this one is a part of: a MIG instance's GPU."""
    pcie_root: str | None = None
    """PCIe root complex, as sysfs names it: pci0000:3a."""
    names: tuple[str, ...] = ()
    """Kernel names, such as eth0 or mlx5_0."""
    numa: Annotated[int, Field(ge=0)] | None = None
    locality: Locality = Field(default_factory=Locality)


class DeviceLink(Model):
    """How two devices reach each other."""

    a: str
    """Id of a device."""
    b: str
    """Id of another one, later in ``devices``."""
    kind: Annotated[str, Field(pattern=r"^(PIX|PXB|PHB|NODE|SYS|NV[0-9]{1,3})$")]
    """In ``nvidia-smi topo -m``'s words: PIX one PCIe bridge, PXB several, PHB the CPU's host
    bridge, NODE within a NUMA node, SYS between nodes, NV# a number of NVLinks."""


class SchedExt(Model):
    """What the kernel says about sched_ext."""

    supported: bool
    """Whether /sys/kernel/sched_ext exists."""
    state: str | None = None
    ops: str | None = None
    """Name of the loaded scheduler."""


class Kernel(Model):
    """Abilities of the running kernel."""

    release: str | None = None
    preempt_rt: bool | None = None
    btf: bool | None = None
    sched_ext: SchedExt | None = None
    cgroup: Literal["v2", "hybrid", "v1", "none"] | None = None
    cmdline: str | None = None
    """Only the options that concern CPUs (isolcpus, nohz_full, rcu_nocbs, threadirqs, nosmt,
    maxcpus, nr_cpus, irqaffinity)."""


class Kubelet(Model):
    """What the kubelet owns."""

    present: bool
    policy: str | None = None
    """cpuManagerPolicy."""
    reserved: CpuList | None = None
    """reservedSystemCPUs, where the static policy is in force."""
    exclusive: CpuList | None = None
    """CPUs given to containers exclusively."""
    shared_pool: CpuList | None = None
    """CPUs of all other containers (``defaultCpuSet`` of the CPU manager)."""
    strict_reservation: bool | None = None
    """Whether ordinary pods are kept off ``reserved`` (``strict-cpu-reservation``)."""
    topology_policy: str | None = None
    """topologyManagerPolicy."""
    root: str | None = None
    """The kubelet's directory on the node, such as /var/lib/kubelet."""
    cgroup_driver: Literal["systemd", "cgroupfs"] | None = None
    cri_socket: str | None = None
    """Socket of the container runtime on the node, such as /run/containerd/containerd.sock."""
    pods_root: CgroupPath | None = None
    """cgroup path of all pods below the cgroup v2 root, without a leading slash."""
    control_plane: bool = False
    """Whether a control plane is embedded (microk8s, k3s server)."""


class Virtualization(Model):
    """Whether what we see is the machine."""

    vm: bool | None = None
    hypervisor: str | None = None
    container: bool | None = None


class DeviceOverride(Model):
    """What the operator knows better about a device."""

    id: str
    numa: Annotated[int, Field(ge=0)] | None = None
    cpus: CpuList | None = None


class Overrides(Model):
    """What the operator knows better; wins over everything collected."""

    isolated: CpuList | None = None
    allowed: CpuList | None = None
    pods_root: CgroupPath | None = None
    devices: tuple[DeviceOverride, ...] = ()


class Source(Model):
    """Where a set of facts came from."""

    reader: str
    """Name of the format."""
    facts: tuple[str, ...]
    """Which facts it supplied."""


class FactsSpec(Model):
    """The body of node facts."""

    arch: str | None = None
    """Machine name as ``uname -m`` prints it."""
    cpus: Cpus
    cores: Annotated[tuple[CoreGroup, ...], Field(min_length=1)]
    """Every online CPU, once."""
    kinds: tuple[KindRow, ...] = ()
    """Kinds of core, fastest first; empty where there is one, or nothing tells."""
    llcs: tuple[Llc, ...] = ()
    numa: tuple[Numa, ...] = ()
    devices: tuple[Device, ...] = ()
    links: tuple[DeviceLink, ...] = ()
    kernel: Kernel = Field(default_factory=Kernel)
    kubelet: Kubelet | None = None
    virtualization: Virtualization = Field(default_factory=Virtualization)
    overrides: Overrides = Field(default_factory=Overrides)
    sources: tuple[Source, ...] = ()
    warnings: tuple[str, ...] = ()
    """What the collector could not read or did not believe."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        seen = CpuSet()
        for place, group in enumerate(self.cores):
            if twice := seen & group.cpus:
                first = next(i for i, g in enumerate(self.cores) if g.cpus & twice)
                raise Misfit(
                    f"cores names CPU {twice} twice",
                    ("cores", first, "cpus"),
                    ("cores", place, "cpus"),
                )
            seen |= group.cpus
        if seen != self.cpus.online:
            if missing := self.cpus.online - seen:
                raise Misfit(f"online CPU {missing} is in no group of cores", ("cores",))
            extra = seen - self.cpus.online
            raise Misfit(
                f"cores names CPU {extra}, which is not online",
                *(("cores", i, "cpus") for i, g in enumerate(self.cores) if g.cpus & extra),
            )
        for name, ids in (
            ("llcs", [row.id for row in self.llcs]),
            ("numa", [row.id for row in self.numa]),
            ("devices", [row.id for row in self.devices]),
        ):
            times = Counter[int | str](ids)
            if repeated := sorted(str(id_) for id_, number in times.items() if number > 1):
                raise Misfit(
                    f"{name} has id {repeated[0]} twice",
                    *((name, i, "id") for i, one in enumerate(ids) if str(one) == repeated[0]),
                )
        llc_ids = {llc.id for llc in self.llcs}
        numa_ids = {numa.id for numa in self.numa}
        for place, group in enumerate(self.cores):
            if group.llc is not None and group.llc not in llc_ids:
                raise Misfit(
                    f"cores {group.cpus} name llc {group.llc}, which llcs lacks",
                    ("cores", place, "llc"),
                )
            if group.numa is not None and group.numa not in numa_ids:
                raise Misfit(
                    f"cores {group.cpus} name numa {group.numa}, which numa lacks",
                    ("cores", place, "numa"),
                )
        for place, row in enumerate(self.kinds):
            said = union(group.cpus for group in self.cores if group.kind == row.name)
            if row.cpus != said:
                raise Misfit(
                    f"kinds says that {row.name} is CPU {row.cpus or 'none'}, but cores says "
                    f"{said or 'none'}",
                    ("kinds", place, "cpus"),
                )
        device_ids: set[str] = set()
        for place, device in enumerate(self.devices):
            if device.parent is not None and device.parent not in device_ids:
                raise Misfit(
                    f"device {device.id} is a part of {device.parent}, which no earlier device is",
                    ("devices", place, "parent"),
                )
            device_ids.add(device.id)
        for place, link in enumerate(self.links):
            for end in (link.a, link.b):
                if end not in device_ids:
                    raise Misfit(f"links names {end}, which devices lacks", ("links", place))
        for place, node in enumerate(self.numa):
            if node.distances and len(node.distances) != len(self.numa):
                raise Misfit(
                    f"numa {node.id} has {len(node.distances)} distances, not {len(self.numa)}",
                    ("numa", place, "distances"),
                )
        return self


class NodeFacts(Model):
    """What one node is."""

    api_version: Literal["tierc.dev/v1alpha1"]
    kind: Literal["NodeFacts"]
    metadata: NodeMetadata
    spec: FactsSpec
