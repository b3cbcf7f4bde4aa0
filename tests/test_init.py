"""``tierc init``: what is written, for the engines that run and any name."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel

from compiler.__main__ import main
from compiler.model.base import Model
from compiler.model.project import Enforce, LintOptions, Project, ProjectSpec, Reserve, Sources
from compiler.scaffold.engines import place, running
from compiler.schemas import generate
from tests.conftest import shared_dir
from tests.corpus import unpack
from tests.examples import read_tree
from tests.init_command import FILES, init, lint, process
from tests.sysfs_builder import SysfsBuilder, gb10
from tests.taskset_live import make_shell, worker


@pytest.fixture
def spark(tmp_path: Path) -> SysfsBuilder:
    """A machine with a GPU, in files."""
    return gb10(tmp_path / "machine")


@pytest.fixture
def small(tmp_path: Path) -> SysfsBuilder:
    """A machine of four cores, in files."""
    b = SysfsBuilder(tmp_path / "machine")
    b.masks(online="0-3", possible="0-3", present="0-3")
    b.cores(["0", "1", "2", "3"])
    b.cache(3, "0-3", level=3, size="8192K", id=0)
    b.node(0, "0-3", mem_kib=1 << 20, distance="10")
    return b


# --- what is written -------------------------------------------------------------------------


def test_this_machine_lints_clean_builds_and_is_only_observed(
    tmp_path: Path, tool: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    root, out = tmp_path / "policy", tmp_path / "out"
    assert init(root, "--name", "here") == 0
    assert lint(root) == 0
    assert "no findings" in capsys.readouterr().out
    assert main(["test", str(root)]) == 0
    assert main(["build", str(root), "-o", str(out)]) == 0
    assert json.loads((out / "nodes/here/plan.json").read_text())["mode"] == "observe"
    shell = make_shell("dash", tool, tmp_path)
    with worker("stress-ng-init") as one:
        before = one.masks()
        done = shell.run(out / "nodes/here/taskset/apply.sh")
        assert done.returncode == 0, done.stderr
        assert "mode is observe" in done.stdout
        assert one.masks() == before


def test_a_machine_with_a_gpu(spark: SysfsBuilder, tmp_path: Path) -> None:
    root = tmp_path / "policy"
    assert init(root, "--sysroot", spark.root) == 0
    assert lint(root) == 0
    assert main(["build", str(root), "-o", str(tmp_path / "out")]) == 0
    files = {path for path in read_tree(root) if not path.startswith(".tierc/")}
    assert files == FILES | {"nodes/spark-a.yaml"}


def test_the_engine_template_is_clean_once_its_first_marks_are_deleted(
    spark: SysfsBuilder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "policy"
    assert init(root, "--sysroot", spark.root) == 0
    path = root / "intents/engine.yaml"
    head, _, body = path.read_text().partition("\n\n")
    assert all(line.startswith("#") for line in body.splitlines())
    path.write_text(head + "\n\n" + re.sub(r"(?m)^#", "", body))
    capsys.readouterr()
    assert lint(root) == 0
    assert "3 intents" in capsys.readouterr().out
    assert main(["build", str(root), "-o", str(tmp_path / "out")]) == 0
    assert "gpu-local, performance" in body
    plan = json.loads((tmp_path / "out/nodes/spark-a/plan.json").read_text())
    assert [lane["name"] for lane in plan["lanes"]] == ["serving"]


def keys(model: type[BaseModel]) -> Iterator[str]:
    for name, field in model.model_fields.items():
        yield field.alias or name


def test_every_option_of_a_project_is_shown(spark: SysfsBuilder, tmp_path: Path) -> None:
    assert init(tmp_path / "p", "--sysroot", spark.root) == 0
    text = (tmp_path / "p/tierc.yaml").read_text()
    targets: type[Model] = type(ProjectSpec().targets)
    for model in (Project, ProjectSpec, Sources, Enforce, Reserve, LintOptions, targets):
        for key in keys(model):
            assert re.search(rf"(?m)\b{key}:", text), f"{model.__name__}.{key}"


def test_what_is_commented_out_in_the_project_is_right_as_well(
    spark: SysfsBuilder, tmp_path: Path
) -> None:
    root = tmp_path / "p"
    assert init(root, "--sysroot", spark.root) == 0
    path = root / "tierc.yaml"
    text = path.read_text()
    for line in (
        "metadata: {name: my-fleet}",
        "cpuset: {}",
        "irq: {}",
        "bpf: {}",
        "kubernetes: {}",
        "severity: {TRC212: error}",
        "rollout: {steps: [{percent: 10}, all]}",
    ):
        assert f"# {line}" in text
        text = text.replace(f"# {line}", line)
    entry = re.findall(r"(?m)^    # (- nodes: .*|  mode: .*|  acceptUnenforced.*)$", text)
    assert len(entry) == 3
    for line in entry:
        text = text.replace(f"    # {line}", f"    {line}".replace("NAME", "spark-a"))
    path.write_text(text)
    assert lint(root) == 0
    assert main(["build", str(root), "-o", str(tmp_path / "out")]) == 0
    assert json.loads((tmp_path / "out/nodes/spark-a/plan.json").read_text())["mode"] == "fallback"


def test_schemas_are_there_named_and_renewable(spark: SysfsBuilder, tmp_path: Path) -> None:
    root = tmp_path / "p"
    assert init(root, "--sysroot", spark.root) == 0
    schemas = root / ".tierc/schemas"
    documents = [root / "tierc.yaml"]
    documents += [
        path for name in ("intents", "nodes", "tests") for path in (root / name).iterdir()
    ]
    for path in documents:
        first = path.read_text().splitlines()[0]
        assert first.startswith("# yaml-language-server: $schema="), path
        assert (path.parent / first.split("=", 1)[1]).resolve().parent == schemas.resolve()
    assert read_tree(schemas) == {f"{kind}.json": data for kind, data in generate().items()}
    before = read_tree(root)
    assert main(["schemas", str(schemas)]) == 0
    assert read_tree(root) == before
    assert "tierc schemas .tierc/schemas" in (root / "README.md").read_text()


def test_the_readme_is_short_and_the_workflow_runs_the_checks(
    spark: SysfsBuilder, tmp_path: Path
) -> None:
    assert init(tmp_path / "p", "--sysroot", spark.root) == 0
    readme = (tmp_path / "p/README.md").read_text()
    assert readme.count("\n- ") == 5
    ci = (tmp_path / "p/.github/workflows/tierc.yaml").read_text()
    assert "tierc lint ." in ci
    assert "tierc test ." in ci
    assert "tierc build . -o rendered --check" in ci


def test_files_have_the_usual_modes(spark: SysfsBuilder, tmp_path: Path) -> None:
    old = os.umask(0o022)
    try:
        assert init(tmp_path / "p", "--sysroot", spark.root) == 0
    finally:
        os.umask(old)
    for path in (tmp_path / "p", *(tmp_path / "p").rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o755 if path.is_dir() else 0o644), path


# --- engines that run ------------------------------------------------------------------------


def test_an_engine_that_runs_gets_an_intent_with_its_cgroup(
    spark: SysfsBuilder, tmp_path: Path
) -> None:
    scope = f"/system.slice/docker-{'a1' * 32}.scope"
    process(spark, 100, "vllm", scope, "/usr/bin/python3 /usr/local/bin/vllm serve m")
    process(spark, 101, "VLLM::EngineCor", scope)
    process(spark, 102, "bash", "/user.slice/user-1000.slice/session-3.scope")
    root = tmp_path / "p"
    assert init(root, "--sysroot", spark.root) == 0
    text = (root / "intents/engine.yaml").read_text()
    assert 'cgroup: "system.slice/docker-*.scope/**"' in text
    assert lint(root) == 0
    assert main(["build", str(root), "-o", str(tmp_path / "out")]) == 0
    plan = json.loads((tmp_path / "out/nodes/spark-a/plan.json").read_text())
    assert [lane["name"] for lane in plan["lanes"]] == ["serving"]


def test_two_engines_get_a_lane_each(spark: SysfsBuilder, tmp_path: Path) -> None:
    process(spark, 100, "VLLM::EngineCor", "/system.slice/vllm.service")
    process(spark, 101, "sglang::schedul", "/system.slice/sglang.service/sub")
    root = tmp_path / "p"
    assert init(root, "--sysroot", spark.root) == 0
    assert lint(root) == 0
    text = (root / "intents/engine.yaml").read_text()
    for engine in ("vllm", "sglang"):
        assert f'cgroup: "system.slice/{engine}.service/**"' in text
        assert f"lane: {{name: {engine}," in text


def test_an_engine_in_a_pod(spark: SysfsBuilder, tmp_path: Path) -> None:
    pod = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podab.slice/cri-1.scope"
    spark.directory("sys/fs/cgroup/kubepods.slice")
    spark.directory("var/lib/kubelet")
    process(spark, 100, "VLLM::EngineCor", pod)
    root = tmp_path / "p"
    assert init(root, "--sysroot", spark.root) == 0
    assert 'cgroup: "@pods/**"' in (root / "intents/engine.yaml").read_text()
    assert lint(root) == 0


def test_where_the_intent_would_not_be_clean_it_is_a_template_and_that_is_said(
    small: SysfsBuilder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # the facts name no pods root, so @pods is unknown
    process(small, 100, "VLLM::EngineCor", "/kubepods/burstable/pod1/c1")
    root = tmp_path / "p"
    assert init(root, "--sysroot", small.root) == 0
    assert "vllm runs here" in capsys.readouterr().err
    assert "\n#kind: Intent\n" in (root / "intents/engine.yaml").read_text()
    assert lint(root) == 0


@pytest.mark.parametrize(
    ("cgroup", "pattern"),
    [
        (f"system.slice/docker-{'0f' * 32}.scope", "system.slice/docker-*.scope/**"),
        (f"machine.slice/libpod-{'0f' * 32}.scope/x", "machine.slice/libpod-*.scope/**"),
        ("system.slice/vllm@1.service", "system.slice/vllm@1.service/**"),
        (f"docker/{'0f' * 32}", "docker/*/**"),
        ("kubepods/besteffort/pod1/2", "@pods/**"),
        ("kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-podx.slice/y", "@pods/**"),
        ("user.slice/user-1000.slice/session-2.scope", None),
        ("../../system.slice/x.service", None),
        ("", None),
        ("init.scope", "init.scope/**"),
        ("system.slice", None),
        ("system.slice/a b.service", None),
        ('system.slice/a"\n.service', None),
        ("system.slice/a*.service", None),
    ],
)
def test_places_outlive_the_process(cgroup: str, pattern: str | None) -> None:
    assert place(cgroup) == pattern


def test_other_programs_are_no_engines(spark: SysfsBuilder) -> None:
    process(spark, 100, "python3", "/system.slice/a.service", "python3 -m http.server")
    process(spark, 101, "nvidia", "/")
    process(spark, 102, "VLLM::EngineCor", "/user.slice/user-1.slice/session-1.scope")
    spark.file("proc/103/comm", "")
    assert running(spark.root) == ()


# --- names -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["p w", "рабочая станция", "日本", "-x", "it's", "a\nb", "$(id)", "%d"]
)
def test_directories_of_any_name(spark: SysfsBuilder, tmp_path: Path, name: str) -> None:
    root = tmp_path / name
    assert init(root, "--sysroot", spark.root) == 0
    assert lint(root) == 0
    assert main(["build", str(root), "-o", str(tmp_path / "out")]) == 0


def test_the_working_directory_is_the_default(
    spark: SysfsBuilder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "p").mkdir()
    monkeypatch.chdir(tmp_path / "p")
    assert init("--sysroot", spark.root) == 0
    assert (tmp_path / "p/nodes/spark-a.yaml").is_file()


@pytest.mark.parametrize(
    ("host", "node"),
    [
        ("Spark_A.LAN", "spark-a.lan"),
        ("ÜBER-box", "ber-box"),
        ("-", "node"),
        ("x" * 64, "x" * 63),
        ("a..b", "a.b"),
        ("$(reboot)", "reboot"),
        ("../../etc", "etc"),
        ("no", "no"),
        ("1e3", "1e3"),
    ],
)
def test_odd_host_names(small: SysfsBuilder, tmp_path: Path, host: str, node: str) -> None:
    small.file("proc/sys/kernel/hostname", host + "\n")
    root = tmp_path / "p"
    assert init(root, "--sysroot", small.root) == 0
    assert [path.name for path in (root / "nodes").iterdir()] == [f"{node}.yaml"]
    assert lint(root) == 0


def test_a_name_longer_than_a_file_may_be_called(small: SysfsBuilder, tmp_path: Path) -> None:
    name = ".".join(["n" * 60] * 4)[:243]
    root = tmp_path / "p"
    assert init(root, "--sysroot", small.root, "--name", name) == 0
    assert init(root, "--sysroot", small.root, "--name", name) == 0
    assert lint(root) == 0


@pytest.mark.parametrize("name", ["Spark", "a_b", "../x", "", "a" * 254, "a\nb"])
def test_bad_names_are_refused(
    small: SysfsBuilder, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert init(tmp_path / "p", "--sysroot", small.root, "--name", name) == 2
    err = capsys.readouterr().err
    assert "is not a node name" in err
    assert len(err.splitlines()) == 1
    assert not (tmp_path / "p").exists()


# --- machines of the corpus ------------------------------------------------------------------


@pytest.mark.parametrize("snapshot", ["ghw-snapshots", "hwloc-sysfs", "lscpu-dumps"])
def test_intents_are_clean_on_real_machines(
    shared: Path, snapshot: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    del shared
    archives = sorted((shared_dir() / "corpus/topology" / snapshot).glob("*.tar*"))
    tried = 0
    for archive in archives[:4]:
        where = tmp_path / str(tried)
        root = unpack(archive, where / "machine")
        code = init(where / "p", "--sysroot", root)
        capsys.readouterr()
        main(["lint", str(where / "p"), "--format", "json"])
        findings = json.loads(capsys.readouterr().out)["diagnostics"]
        bad = [
            one
            for one in findings
            if one["severity"] != "info" and "/nodes/" not in one["span"]["path"]
        ]
        assert bad == [], archive
        assert code == 0, archive
        tried += 1
    assert tried
