"""The command line.  Declares commands and options; the work, and its imports, is in
``compiler.commands``."""

from pathlib import Path
from typing import Annotated

import typer

from compiler import __version__
from compiler.cli_facts import facts_app
from compiler.cli_options import Color, ColorOption, FormatOption, Level, ProjectOption

app = typer.Typer(
    name="tierc",
    help="Compile CPU-scheduling intent and node topology into the files each node needs.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    add_completion=False,
)
app.add_typer(facts_app, name="facts")


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
    path: Annotated[Path, typer.Argument(help="A policy repository.")] = Path(),
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Directory of the output tree.")
    ] = None,
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
    shard: Annotated[
        str | None,
        typer.Option(
            metavar="I/N",
            help="Only part I (from 0) of N parts; all of them together are the whole build.",
        ),
    ] = None,
    stdout: Annotated[
        str | None,
        typer.Option(
            metavar="TARGET", help="Print the cluster's objects instead of writing a tree."
        ),
    ] = None,
    allow_empty: Annotated[
        bool, typer.Option("--allow-empty", help="With --stdout: no object at all is no error.")
    ] = False,
    check: Annotated[
        bool,
        typer.Option("--check", help="Write nothing; exit 1 when the tree on disk differs."),
    ] = False,
    color: ColorOption = Color.AUTO,
) -> None:
    """Compile the policy and write the tree atomically.

    With an error anywhere nothing is written.  What tierc did not write is kept.
    """
    from compiler.commands.build import Wanted, run

    wanted = Wanted(
        out=out,
        nodes=tuple(node or ()),
        targets=tuple(target or ()),
        shard=shard,
        stdout=stdout,
        allow_empty=allow_empty,
        check=check,
    )
    raise typer.Exit(run(path, wanted, color.value))


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

    With neither: the node's class, its step of the rollout, the intents that select it, its lanes,
    units and what is left out.
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


@app.command(epilog="Example: tierc graph . --node spark-a --format dot | dot -Tsvg -o spark-a.svg")
def graph(
    path: Annotated[
        Path | None, typer.Argument(help="A policy repository.", show_default=".")
    ] = None,
    project: Annotated[
        Path | None,
        typer.Option("--project", "-p", help="The same.", show_default=False),
    ] = None,
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

    raise typer.Exit(run(path, project, node, output, out, color.value))


@app.command(epilog="Example: tierc verify /etc/tierc/nodes/spark-a --format json")
def verify(
    directory: Annotated[
        Path, typer.Argument(metavar="NODE_DIR", help="nodes/NODE of a built tree, on the node.")
    ],
    root: Annotated[
        Path,
        typer.Option(
            "--root",
            "--sysroot",
            metavar="DIR",
            help="Root of the node's file system, where it is mounted or copied.",
        ),
    ] = Path("/"),
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
        Level, typer.Option("--fail-on", help="Exit 1 at this severity.")
    ] = Level.ERROR,
    everything: Annotated[
        bool, typer.Option("--all", help="Also list every thread that has a rule.")
    ] = False,
    color: ColorOption = Color.AUTO,
) -> None:
    """Compare this node with what was compiled for it; change nothing.

    Machine, kill switch, affinity of every thread, lanes, interrupts, and the scheduler's maps.
    Exit codes: 0 as planned; 1 it differs, also when the plan is for another machine; 2 no plan
    that can be used.
    """
    from compiler.commands.verify import run

    raise typer.Exit(
        run(
            directory,
            root,
            formats or ["text"],
            fail_on.value,
            color.value,
            everything=everything,
        )
    )


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
