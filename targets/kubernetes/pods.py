"""The pods: where they run, what they may do, what they see of the host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from compiler.fleet import FleetClass
from compiler.model.cluster import KubernetesOptions
from compiler.yamlout import Plain
from targets.kubernetes.content import Content, Entry, Shard
from targets.kubernetes.objects import ACCOUNT, SHORT, Object, metadata, runner

SCRIPTS: Final = ("cpuset", "irq", "taskset")
"""Targets of nodes whose ``apply.sh`` a pod can run with nothing but busybox."""

PLAN_DIR: Final = "/tierc/plan"
RUN_DIR: Final = "/tierc/run"
IRQS_DIR: Final = "/host/proc"
STATE_DIR: Final = "/var/lib/tierc"
ETC_DIR: Final = "/etc/tierc"


@dataclass(frozen=True, slots=True)
class Daemon:
    """The DaemonSet of a class's nodes in one step of a rollout."""

    group: FleetClass
    content: Content
    step: int
    nodes: tuple[str, ...]

    @property
    def name(self) -> str:
        """Return its name, which stays the same while the plan changes."""
        return f"tierc-{self.group.name}-{self.step}"

    @property
    def labels(self) -> dict[str, str]:
        """Return what tells its pods from all others."""
        return {"tierc.dev/class": self.group.name, "tierc.dev/step": str(self.step)}


def switch_dir(options: KubernetesOptions) -> str:
    """Return the directory of the node that has the kill switch.

    Where it is that of the records nothing below ``/etc`` is mounted: no runtime can make a
    directory in a read-only ``/etc``, and such a pod would never start.
    """
    return options.kill_switch.rpartition("/")[0]


def map_names(group: FleetClass, content: Content) -> list[str]:
    """Return the names of the ConfigMaps of a class, as they are without their hash."""
    return [f"tierc-{group.name}-plan{number}" for number in range(len(content.shards))]


def node_labels(daemon: Daemon, options: KubernetesOptions) -> dict[str, str]:
    """Return the labels of nodes that ``select: labels`` goes by."""
    prefix = options.label_prefix
    return {f"{prefix}/class": daemon.group.name, f"{prefix}/step": str(daemon.step)}


def waves(daemon: Daemon, options: KubernetesOptions) -> tuple[int, int]:
    """Return the sync waves of a step's NodeFeatures and of its DaemonSet.

    A node that has its label is no longer of its old class, whose pod goes at once.  So it gets it
    just before its step's DaemonSet is there: not with the first wave, which would leave nodes of
    late steps without a pod while the rollout is on its way, nor in the same wave, where a
    DaemonSet that selects no node yet would pass for one that is through.
    """
    if options.select == "names":
        return 0, daemon.step
    return 2 * daemon.step - 1, 2 * daemon.step


def scripts_of(group: FleetClass) -> list[str]:
    """Return the targets of a class whose scripts a pod can run."""
    paths = {file.path for file in group.files}
    return [name for name in SCRIPTS if f"{name}/apply.sh" in paths]


def daemon_set(daemon: Daemon, options: KubernetesOptions) -> Object:
    """Return the DaemonSet."""
    selector: Object = {"app.kubernetes.io/name": "tierc", **daemon.labels}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        # Pruned when the whole rollout is through. Otherwise Argo CD prunes the last steps first,
        # and nodes that are in another class now have no pod until the step of the new one.
        "metadata": metadata(
            daemon.name,
            options.namespace,
            wave=waves(daemon, options)[1],
            sync=("ServerSideApply=true", "PruneLast=true"),
            labels=daemon.labels,
        ),
        "spec": {
            "revisionHistoryLimit": 3,
            "selector": {"matchLabels": selector},
            "updateStrategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxUnavailable": options.max_unavailable},
            },
            "template": {
                "metadata": {
                    "labels": {**selector, "app.kubernetes.io/component": "node"},
                    "annotations": {"tierc.dev/plan": daemon.content.digest},
                },
                "spec": _pod(daemon, options),
            },
        },
    }


def _pod(daemon: Daemon, options: KubernetesOptions) -> Object:
    pod: Object = {
        "serviceAccountName": ACCOUNT,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "hostPID": True,
        "terminationGracePeriodSeconds": 30,
    }
    if options.priority_class_name is not None:
        pod["priorityClassName"] = options.priority_class_name
    if options.image_pull_secrets:
        pod["imagePullSecrets"] = [{"name": name} for name in options.image_pull_secrets]
    pod["nodeSelector"] = {"kubernetes.io/os": "linux"}
    pod["affinity"] = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": _terms(daemon, options)
            }
        }
    }
    pod["tolerations"] = _tolerations(options)
    pod["containers"] = [_container(daemon, options)]
    pod["volumes"] = _volumes(daemon, options)
    return pod


def _terms(daemon: Daemon, options: KubernetesOptions) -> list[Plain]:
    """Return alternatives, of which a node must meet one; a field takes one name only."""
    if options.select == "labels":
        return [
            {
                "matchExpressions": [
                    {"key": key, "operator": "In", "values": [value]}
                    for key, value in node_labels(daemon, options).items()
                ]
            }
        ]
    return [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
        for node in daemon.nodes
    ]


def _tolerations(options: KubernetesOptions) -> list[Plain]:
    if options.tolerations is None:
        return [{"operator": "Exists"}]
    return [one.model_dump(by_alias=True, exclude_none=True) for one in options.tolerations]


def _container(daemon: Daemon, options: KubernetesOptions) -> Object:
    scripts = scripts_of(daemon.group)
    switch = switch_dir(options)
    etc: Plain = {"name": "etc", "mountPath": switch, "readOnly": True}
    mounts: list[Plain] = [
        {"name": "run", "mountPath": RUN_DIR, "readOnly": True},
        {"name": "plan", "mountPath": PLAN_DIR, "readOnly": True},
        {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - in the container
        {"name": "state", "mountPath": STATE_DIR},
        *([etc] if switch != STATE_DIR else []),
        {"name": "cgroup", "mountPath": "/host/cgroup", "readOnly": "cpuset" not in scripts},
    ]
    if "irq" in scripts:
        # Not all of /proc: as root, its sysctls and triggers are the whole host.
        mounts += [
            {"name": "irq", "mountPath": f"{IRQS_DIR}/irq"},
            {"name": "interrupts", "mountPath": f"{IRQS_DIR}/interrupts", "readOnly": True},
        ]
    return {
        "name": "tierc",
        "image": options.image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", f"{RUN_DIR}/run.sh"],
        "env": _environment(daemon, options, scripts),
        "readinessProbe": {
            "exec": {"command": ["test", "-e", "/tmp/ready"]},  # noqa: S108 - in the container
            "periodSeconds": 10,
            "timeoutSeconds": 5,  # of a pod that may use half a CPU, on a busy node
        },
        "resources": {
            "requests": {"cpu": "10m", "memory": "32Mi"},
            "limits": {"cpu": "500m", "memory": "128Mi"},
        },
        "securityContext": {
            "privileged": False,
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": False,
            "runAsUser": 0,
            "runAsGroup": 0,
            "capabilities": {"drop": ["ALL"], "add": ["SYS_NICE"]},
            "seLinuxOptions": {"type": "spc_t"},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumeMounts": mounts,
    }


def _environment(daemon: Daemon, options: KubernetesOptions, scripts: Sequence[str]) -> list[Plain]:
    values = {
        "TIERC_CLASS": daemon.group.name,
        "TIERC_MODE": daemon.group.plan.mode,
        "TIERC_PLAN": daemon.content.digest,
        "TIERC_INTERVAL": str(options.interval_seconds),
        "TIERC_CGROUP": "/host/cgroup",
    }
    if switch_dir(options) != ETC_DIR:
        values["TIERC_ETC"] = switch_dir(options)
    if options.select == "names":
        values["TIERC_NODES"] = " ".join(daemon.nodes)
    if "irq" in scripts:
        values["TIERC_IRQS"] = IRQS_DIR
    return [
        {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        *({"name": name, "value": value} for name, value in values.items()),
    ]


def _volumes(daemon: Daemon, options: KubernetesOptions) -> list[Plain]:
    shards = zip(map_names(daemon.group, daemon.content), daemon.content.shards, strict=True)
    switch = switch_dir(options)
    volumes: list[Plain] = [
        {"name": "run", "projected": {"sources": [_source("tierc-run", runner())]}},
        {"name": "plan", "projected": {"sources": [_source(*shard) for shard in shards]}},
        {"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}},
        _host("state", STATE_DIR, "DirectoryOrCreate"),
        *([_host("etc", switch, "DirectoryOrCreate")] if switch != STATE_DIR else []),
        _host("cgroup", "/sys/fs/cgroup", "Directory"),
    ]
    if "irq" in scripts_of(daemon.group):
        volumes += [
            _host("irq", "/proc/irq", "Directory"),
            _host("interrupts", "/proc/interrupts", "File"),
        ]
    return volumes


def _source(name: str, shard: Shard) -> Object:
    return {
        "configMap": {
            "name": f"{name}-{shard.digest[:SHORT]}",
            "items": [_item(entry) for entry in shard.entries],
        }
    }


def _item(entry: Entry) -> Object:
    return {"key": entry.key, "path": entry.path, "mode": entry.mode}


def _host(name: str, path: str, kind: str) -> Object:
    return {"name": name, "hostPath": {"path": path, "type": kind}}
