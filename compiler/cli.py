"""The command line.  Declares commands and options; the work, and its imports, is in
``compiler.commands``."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from compiler import __version__

app = typer.Typer(
    name="tierc",
    help="Compile CPU-scheduling intent and node topology into the files each node needs.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    add_completion=False,
)
facts_app = typer.Typer(
    help="Node facts: what a machine is.", no_args_is_help=True, rich_markup_mode=None
)
app.add_typer(facts_app, name="facts")


class Color(StrEnum):
    """When to colour text reports."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


class Level(StrEnum):
    """Severities for ``--fail-on``."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


ColorOption = Annotated[
    Color,
    typer.Option("--color", help="Colour text output: auto (on a terminal, without NO_COLOR)."),
]
ProjectOption = Annotated[
    Path,
    typer.Option("--project", "-p", help="Policy repository."),
]
FormatOption = Annotated[str, typer.Option("--format", help="text or json.")]


def _version(value: bool) -> None:
    if value:
        typer.echo(f"tierc {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Compile CPU-scheduling intent and node topology into the files each node needs.

    Exit codes: 0 clean; 1 findings at or above --fail-on, or a difference; 2 wrong usage or
    unreadable input; 70 internal error.
    """


@app.command(epilog="Example: tierc init policy --name spark-a")
def init(
    directory: Annotated[
        Path, typer.Argument(metavar="[DIR]", help="Directory of the repository; may exist.")
    ] = Path(),
    name: Annotated[
        str | None, typer.Option(help="This machine's node name; omitted: the host name.")
    ] = None,
    sysroot: Annotated[
        Path, typer.Option(help="Root of another machine's mounted or copied file system.")
    ] = Path("/"),
) -> None:
    """Write a policy repository for this machine, in mode observe.

    Never replaces a file: when one of the same name says something else, nothing is written.
    Exit code 1: written, but without node facts, or what else is there has errors.
    """
    from compiler.commands.init import run

    raise typer.Exit(run(directory, name, sysroot))


@app.command(epilog="Example: tierc lint . --format text --format json=lint.json")
def lint(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(help="A policy repository, or files of one.", show_default="."),
    ] = None,
    formats: Annotated[
        list[str] | None,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="text or json; FORMAT=FILE writes to a file. May be repeated.",
            show_default="text",
        ),
    ] = None,
    fail_on: Annotated[
        Level | None,
        typer.Option(
            "--fail-on", help="Exit 1 at this severity.", show_default="lint.failOn, or error"
        ),
    ] = None,
    color: ColorOption = Color.AUTO,
) -> None:
    """Check intents and node facts without writing anything."""
    from compiler.commands.lint import run

    raise typer.Exit(
        run(paths or [Path()], formats or ["text"], fail_on and fail_on.value, color.value)
    )


@app.command(epilog="Example: tierc build . -o rendered --node spark-a --target taskset")
def build(
    out: Annotated[Path, typer.Option("--out", "-o", help="Directory of the output tree.")],
    path: Annotated[Path, typer.Argument(help="A policy repository.")] = Path(),
    node: Annotated[
        list[str] | None,
        typer.Option(
            "--node", metavar="NAME", help="Only this node's files; others stay. May be repeated."
        ),
    ] = None,
    target: Annotated[
        list[str] | None,
        typer.Option(
            "--target",
            metavar="NAME",
            help="Only this target's files; others stay. May be repeated.",
        ),
    ] = None,
    check: Annotated[
        bool,
        typer.Option("--check", help="Write nothing; exit 1 when the tree on disk differs."),
    ] = False,
    color: ColorOption = Color.AUTO,
) -> None:
    """Compile the policy and write the tree atomically.

    With an error anywhere nothing is written.  What tierc did not write is kept.
    """
    from compiler.commands.build import run

    raise typer.Exit(run(path, out, node or [], target or [], color.value, check=check))


@app.command(
    epilog='Example: tierc explain spark-a --comm VLLM::EngineCor --cgroup "system.slice/x"'
)
def explain(
    node: Annotated[str, typer.Argument(help="Name of a node of the policy.")],
    project: ProjectOption = Path(),
    comm: Annotated[
        str | None, typer.Option(help="A thread's name, as ps -eLo comm shows it.")
    ] = None,
    leader_comm: Annotated[
        str | None, typer.Option("--leader-comm", help="Name of the thread's process.")
    ] = None,
    cgroup: Annotated[
        str | None, typer.Option(help="The thread's cgroup, without a leading slash.")
    ] = None,
    cmdline: Annotated[str | None, typer.Option(help="The process's command line.")] = None,
    kthread: Annotated[
        bool, typer.Option("--kthread", help="The name is that of a kernel thread.")
    ] = False,
    cpu: Annotated[int | None, typer.Option(help="A CPU number: whose is it?", min=0)] = None,
    lane: Annotated[str | None, typer.Option(help="A lane: what it asked for and got.")] = None,
    output: FormatOption = "text",
) -> None:
    """Say which rule, tier and CPUs a thread gets on a node, whose a CPU is, and why.

    With neither: the intents that select the node, its lanes, units and what is left out.
    """
    from compiler.commands.explain import run
    from compiler.explain import Thread

    thread = Thread(comm, leader_comm, cgroup, cmdline, kthread)
    raise typer.Exit(run(project, node, thread, cpu, lane, output))


@app.command("test", epilog="Example: tierc test . -k chat --format text --format junit=tests.xml")
def policy_test(
    path: Annotated[
        Path, typer.Argument(help="A policy repository, or tests of one.", show_default=".")
    ] = Path(),
    keyword: Annotated[
        str,
        typer.Option(
            "-k", metavar="TEXT", help="Only what has this text in its name.", show_default=False
        ),
    ] = "",
    formats: Annotated[
        list[str] | None,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="text, json or junit; FORMAT=FILE writes to a file. May be repeated.",
            show_default="text",
        ),
    ] = None,
    update: Annotated[
        bool,
        typer.Option("--update", help="Write the snapshots instead of comparing. Not in CI."),
    ] = False,
    color: ColorOption = Color.AUTO,
) -> None:
    """Run the policy's own tests (kind: PolicyTest).

    Exit codes: 0 all passed; 1 some failed or cannot run; 2 nothing to test, or wrong usage.
    """
    from compiler.commands.test import run

    raise typer.Exit(run(path, keyword, formats or ["text"], color.value, update=update))


@app.command(epilog="Example: tierc graph --node spark-a --format dot | dot -Tsvg -o spark-a.svg")
def graph(
    project: ProjectOption = Path(),
    node: Annotated[
        str | None,
        typer.Option(
            "--node", metavar="NAME", help="This node, with its CPUs; omitted: the whole policy."
        ),
    ] = None,
    output: Annotated[
        str,
        typer.Option(
            "--format", help="dot or mermaid: the tiers; text or svg: a node's machine and lanes."
        ),
    ] = "dot",
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="File to write; omitted: standard output."),
    ] = None,
    color: ColorOption = Color.AUTO,
) -> None:
    """Draw the tiers: who is in which, in which lane, who needs whom and who goes first.

    With --node and --format text or svg: which CPU is whose, GPUs beside their CPUs.
    Errors are reported and the picture is drawn all the same.
    """
    from compiler.commands.graph import run

    raise typer.Exit(run(project, node, output, out, color.value))


@facts_app.command(
    epilog="Example: tierc facts collect --label accelerator=gb10 -o nodes/spark-a.yaml"
)
def collect(
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="File to write; omitted: standard output."),
    ] = None,
    name: Annotated[str | None, typer.Option(help="Node name; omitted: the host name.")] = None,
    label: Annotated[
        list[str] | None,
        typer.Option("--label", metavar="KEY=VALUE", help="For node selectors. May be repeated."),
    ] = None,
    sysroot: Annotated[
        Path, typer.Option(help="Root of another machine's mounted or copied file system.")
    ] = Path("/"),
    bundle: Annotated[
        Path | None,
        typer.Option(
            metavar="OUT.tar.gz",
            help="Also keep what was read, so that tierc facts import can repeat it elsewhere.",
        ),
    ] = None,
    no_tools: Annotated[
        bool,
        typer.Option("--no-tools", help="Do not ask nvidia-smi, rocm-smi and NVML about GPUs."),
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Read this machine's CPUs, caches, NUMA nodes, GPUs, NICs and kernel abilities.

    Read-only and without privileges.  CPU facts need no program; GPU tools are asked if installed.
    """
    from compiler.commands.facts import run_collect

    raise typer.Exit(
        run_collect(out, name, label or [], sysroot, force=force, bundle=bundle, tools=not no_tools)
    )


@facts_app.command(
    "import", epilog="Example: tierc facts import lscpu.csv topo.txt --name gpu-7 -o nodes/"
)
def import_(
    files: Annotated[
        list[Path],
        typer.Argument(help="Files, directories or tar archives of any known format; - is stdin."),
    ],
    out: Annotated[
        str | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE|DIR",
            help="File to write, or directory for one file a node (ends in / or is there); "
            "omitted: standard output.",
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Node name; omitted: what the files or -o FILE say.")
    ] = None,
    label: Annotated[
        list[str] | None,
        typer.Option("--label", metavar="KEY=VALUE", help="For node selectors. May be repeated."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace existing files.")] = False,
    color: ColorOption = Color.AUTO,
) -> None:
    """Read what people have of a machine: sysfs, lstopo, lscpu, nvidia-smi, kubectl and more.

    The format is told from the content.  Several files of one node are merged; where they
    disagree the more trusted one counts, and it is said.
    """
    from compiler.commands.facts_import import run_import

    raise typer.Exit(run_import(files, out, name, label or [], color.value, force=force))


@facts_app.command(epilog="Example: tierc facts daemonset --create-namespace | kubectl apply -f -")
def daemonset(
    namespace: Annotated[
        str, typer.Option(metavar="NAME", help="Namespace of the objects.")
    ] = "tierc-facts",
    create_namespace: Annotated[
        bool, typer.Option("--create-namespace", help="Make the namespace as well.")
    ] = False,
    image: Annotated[str, typer.Option(help="Image with busybox.")] = "busybox:1.36",
    selector: Annotated[
        list[str] | None,
        typer.Option(
            "--selector",
            metavar="KEY=VALUE",
            help="Only nodes with this label. May be repeated.",
            show_default="all Linux nodes",
        ),
    ] = None,
    kubelet_root: Annotated[
        str | None,
        typer.Option(
            "--kubelet-root",
            metavar="DIR",
            help="Read the kubelet's CPU manager state there too, such as /var/lib/kubelet; "
            "the pods then run as root.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="File to write; omitted: standard output."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Print a DaemonSet whose pods print their nodes' facts, for a whole cluster.

    The pods need no rights, run a plain shell script and change nothing.  `tierc facts import`
    reads their logs.
    """
    from compiler.commands.facts_daemonset import run

    code = run(
        out,
        namespace,
        image,
        selector or [],
        kubelet_root,
        create_namespace=create_namespace,
        force=force,
    )
    raise typer.Exit(code)


@facts_app.command(epilog="Example: tierc facts show spark-a --format svg -o spark-a.svg")
def show(
    node: Annotated[
        str,
        typer.Argument(
            metavar="NODE|FILE", help="A node of the policy, or a file with NodeFacts; - is stdin."
        ),
    ],
    project: ProjectOption = Path(),
    output: Annotated[str, typer.Option("--format", help="text, json or svg.")] = "text",
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="File to write; omitted: standard output."),
    ] = None,
    width: Annotated[
        int | None,
        typer.Option(help="Columns of the text.", show_default="the terminal's, else 80"),
    ] = None,
    ascii_only: Annotated[bool, typer.Option("--ascii", help="Text in plain ASCII.")] = False,
    no_lanes: Annotated[
        bool, typer.Option("--no-lanes", help="The machine alone, without the owners of its CPUs.")
    ] = False,
    color: ColorOption = Color.AUTO,
) -> None:
    """Draw a machine: packages, NUMA nodes, caches, cores, and the devices near them.

    What is isolated, not allowed, offline or the kubelet's is marked.  A node of the policy is
    drawn with its lanes, housekeeping and what is left over, unless the policy has errors.
    """
    from compiler.commands.facts_show import run

    code = run(
        node,
        project,
        output,
        out,
        width,
        color.value,
        ascii_only=ascii_only,
        lanes=not no_lanes,
    )
    raise typer.Exit(code)


@facts_app.command(epilog="Example: tierc facts diff nodes/gpu-1.yaml nodes/gpu-2.yaml")
def diff(
    a: Annotated[
        str, typer.Argument(metavar="A", help="A node of the policy, or a file with NodeFacts.")
    ],
    b: Annotated[str, typer.Argument(metavar="B", help="Another one; - is stdin.")],
    project: ProjectOption = Path(),
    output: FormatOption = "text",
    everything: Annotated[
        bool,
        typer.Option("--all", help="Also sources and warnings, which do not count."),
    ] = False,
    color: ColorOption = Color.AUTO,
) -> None:
    """Say in what two machines differ, and whether plans treat them alike.

    Order, comments, names of nodes, sources and warnings are no differences.
    Exit codes: 0 no difference; 1 some; 2 facts that cannot be used.
    """
    from compiler.commands.facts_diff import run

    raise typer.Exit(run(a, b, project, output, color.value, everything=everything))


@facts_app.command(epilog="Example: tierc facts validate nodes/*.yaml")
def validate(
    paths: Annotated[list[Path], typer.Argument(help="Files with NodeFacts.")],
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Also report what is not known; exit 1 at warnings as well."),
    ] = False,
    color: ColorOption = Color.AUTO,
) -> None:
    """Check node facts by themselves."""
    from compiler.commands.facts import run_validate

    raise typer.Exit(run_validate(paths, color.value, strict=strict))


@app.command(epilog="Example: tierc rule TRC201")
def rule(
    code: Annotated[
        str | None, typer.Argument(help="A finding's code; omitted: the list of all.")
    ] = None,
) -> None:
    """Print what a finding means and what to do about it."""
    from compiler.commands.rule import run

    raise typer.Exit(run(code))


@app.command(epilog="Example: tierc schemas .tierc/schemas")
def schemas(
    directory: Annotated[Path, typer.Argument(help="Where to write them; made when missing.")],
) -> None:
    """Write the JSON Schemas that editors complete and check documents by."""
    from compiler.commands.schemas import run

    raise typer.Exit(run(directory))
