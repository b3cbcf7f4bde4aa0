"""``tierc facts ...``: commands and options; the work, and its imports, is in
``compiler.commands``."""

from pathlib import Path
from typing import Annotated

import typer

from compiler.cli_options import Color, ColorOption, FormatOption, ProjectOption

facts_app = typer.Typer(
    help="Node facts: what a machine is.", no_args_is_help=True, rich_markup_mode=None
)


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
