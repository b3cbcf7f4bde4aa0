"""Bundles: everything that was looked at, and nothing else, again elsewhere."""

from __future__ import annotations

import errno
import gzip
import io
import json
import os
import stat
import tarfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compiler.facts import collect as collect_module
from compiler.facts.bundling import pack, read_bundle
from compiler.facts.collect import from_sources, gather
from compiler.facts.files import record as record_module
from compiler.facts.files.archive import read_archive
from compiler.facts.files.bundle import (
    Asked,
    Bundle,
    bundle_bytes,
    is_bundle,
    open_bundle,
    write_bundle,
)
from compiler.facts.files.disk import DiskFiles
from compiler.facts.files.memory import Link, MemoryFiles, Placeholder
from compiler.facts.files.record import RecordingFiles
from compiler.facts.files.source import EntryType
from compiler.facts.files.stream import Stream
from compiler.facts.gather.tools import ToolOutput
from compiler.facts.host import read_host
from compiler.facts.partial import ReadError
from compiler.facts.redact import redacted
from compiler.facts.secrets import without_secrets
from compiler.facts.sniff import Reading, read_path
from compiler.facts.tree import Tree
from compiler.facts.write import facts_yaml
from tests.sysfs_builder import gb10
from tests.test_facts_hostile import rich

TOPO = """\
\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID
GPU0\t X \tSYS\t0-1\t0\t\tN/A
GPU1\tSYS\t X \t2-3\t1\t\tN/A
"""


def unpacked(data: bytes) -> MemoryFiles:
    return read_archive(Stream(io.BytesIO(data), limit=1 << 30)).files


def about(data: bytes) -> dict[str, object]:
    loaded = json.loads(unpacked(data).read("/tierc-bundle.json", 1 << 20))
    assert isinstance(loaded, dict)
    return loaded


# --- recordings --------------------------------------------------------------------------------

STEPS = ("a", "b", "link", "x", "..", ".", "loop", "pipe", "secret")
PATHS = st.lists(st.sampled_from(STEPS), min_size=1, max_size=5).map(lambda s: "/" + "/".join(s))
QUESTIONS = st.tuples(
    st.sampled_from(["text", "names", "is_dir", "is_file", "link", "resolve", "short"]), PATHS
)


class Refusing:
    """Files of which some cannot be read, as a plain user finds them."""

    def __init__(self, root: Path) -> None:
        self._files = DiskFiles(root)

    def entry(self, path: str) -> tuple[EntryType, str | None]:
        if path.endswith("/x/b"):
            raise PermissionError(13, "no", path)
        return self._files.entry(path)

    def names(self, path: str) -> list[str]:
        if path.endswith("secret"):
            raise PermissionError(13, "no", path)
        return self._files.names(path)

    def read(self, path: str, limit: int) -> bytes:
        if path.endswith("/b/x"):
            raise OSError(5, "sick", path)
        if path.endswith("/secret"):
            raise PermissionError(13, "no", path)
        return self._files.read(path, limit)


def odd_tree(root: Path) -> None:
    for directory in ("a/b", "b/a/x", "x/secret", "secret/a"):
        (root / directory).mkdir(parents=True)
    files = {"a/x": "1", "a/b/x": "long text", "b/x": "2", "a/secret": "3", "x/b": "", "a/a": "5"}
    for path, text in files.items():
        (root / path).write_text(text)
    links = {"link": "a/b", "a/link": "../b", "b/link": "/x/../a", "loop": "loop"}
    for path, target in {**links, "a/loop": "/../../a/x", "x/link": "nowhere"}.items():
        (root / path).symlink_to(target)
    os.mkfifo(root / "pipe")
    os.mkfifo(root / "a" / "pipe")


def answers(tree: Tree, questions: Sequence[tuple[str, str]]) -> list[object]:
    result: list[object] = []
    for kind, path in questions:
        result.append(tree.text(path, limit=3) if kind == "short" else getattr(tree, kind)(path))
    return [*result, tree.warnings]


@given(st.lists(QUESTIONS, max_size=25))
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_recording_and_its_bundle_answer_as_the_files_did(
    tmp_path: Path, questions: list[tuple[str, str]]
) -> None:
    root = tmp_path / "root"
    if not root.exists():
        odd_tree(root)
    recording = RecordingFiles(Refusing(root))
    asked = answers(Tree(recording), questions)
    assert asked == answers(Tree(Refusing(root)), questions)
    recorded = recording.recorded()
    assert answers(Tree(recorded), questions) == asked
    data = bundle_bytes(Bundle(recorded, live=True))
    assert answers(Tree(open_bundle(unpacked(data)).files), questions) == asked


def test_what_was_not_looked_at_is_not_recorded(tmp_path: Path) -> None:
    odd_tree(tmp_path / "root")
    recording = RecordingFiles(DiskFiles(tmp_path / "root"))
    tree = Tree(recording)
    tree.text("/a/x")
    tree.is_file("/a/a")
    recorded = recording.recorded()
    assert dict(recorded.nodes()) == {"/a/x": b"1", "/a/a": Placeholder("file")}


def test_a_link_that_was_read_like_a_file_is_recorded_as_the_link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("f")
    recording = RecordingFiles(DiskFiles(tmp_path))
    with pytest.raises(OSError, match="/link") as caught:
        recording.read("/link", 9)
    assert caught.value.errno == errno.ELOOP
    recorded = recording.recorded()
    assert list(recorded.nodes()) == [("/link", Link("f"))]
    assert recorded.errors() == {}


def test_a_recording_is_bounded_and_fails_as_it_will(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        (tmp_path / f"f{number}").write_text("x" * 40)
    monkeypatch.setattr(record_module, "MAX_RECORDED", 100)
    recording = RecordingFiles(DiskFiles(tmp_path))
    questions = [("text", f"/f{number}") for number in range(4)]
    asked = answers(Tree(recording), questions)
    assert asked[0] == "x" * 40
    assert asked[3] is None
    assert answers(Tree(recording.recorded()), questions) == asked


# --- the archive -------------------------------------------------------------------------------


def sample() -> Bundle:
    files = MemoryFiles()
    files.add("/sys/f", b"1\n")
    files.add("/sys/net", Link("../devices/net"))
    files.add("/sys/btf", Placeholder("file"))
    files.add("/run/sock", Placeholder("other"))
    files.add_directory("/sys/cpu", ["cpu0", "power"])
    files.add_error("read", "/sys/secret", 13)
    asked = (Asked("a b", ("a", "b"), "said\n"), Asked("c", ("c",), None, "exit status 9"))
    return Bundle(files, live=True, arch="riscv64", host="h1", node="n1", tools=asked)


def test_a_bundle_is_a_plain_archive_with_its_description_first() -> None:
    data = bundle_bytes(sample())
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        members = archive.getmembers()
    assert [member.name for member in members] == [
        "tierc-bundle.json", "root/run", "root/sys", "root/sys/cpu", "root/sys/f", "root/sys/net",
        "tools/0",
    ]  # fmt: skip
    assert {(m.uid, m.gid, m.uname, m.gname, m.mtime) for m in members} == {(0, 0, "", "", 0)}
    assert about(data) == {
        "format": "tierc-bundle-1", "live": True, "arch": "riscv64", "host": "h1", "node": "n1",
        "names": {"/sys/cpu": ["cpu0", "power"]},
        "seen": {"/sys/btf": "file", "/run/sock": "other"},
        "errors": [["read", "/sys/secret", "EACCES"]],
        "tools": [{"name": "a b", "argv": ["a", "b"], "error": None},
                  {"name": "c", "argv": ["c"], "error": "exit status 9"}],
    }  # fmt: skip
    assert data == bundle_bytes(sample())


def test_a_bundle_comes_back_as_it_was() -> None:
    files = unpacked(bundle_bytes(sample()))
    assert is_bundle(files)
    assert not is_bundle(MemoryFiles())
    before, after = sample(), open_bundle(files)
    assert after.tools == before.tools
    assert (after.live, after.arch, after.host, after.node) == (True, "riscv64", "h1", "n1")
    assert list(after.files.nodes()) == list(before.files.nodes())
    assert list(after.files.directories()) == list(before.files.directories())
    assert after.files.errors() == before.files.errors()


def test_a_bundle_is_written_whole_and_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "b.tar.gz"
    path.write_bytes(b"old")
    write_bundle(path, b"new")
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["b.tar.gz"]
    with pytest.raises(FileNotFoundError):
        write_bundle(tmp_path / "none" / "b", b"")
    (tmp_path / "d").mkdir()
    with pytest.raises(OSError, match="directory"):
        write_bundle(tmp_path / "d", b"")
    assert sorted(os.listdir(tmp_path)) == ["b.tar.gz", "d"]


def described(text: str, **files: bytes) -> MemoryFiles:
    result = MemoryFiles()
    result.add("/tierc-bundle.json", text.encode())
    for name, data in files.items():
        result.add("/" + name.replace("__", "/"), data)
    return result


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "cannot be read"),
        ("[]", "cannot be read"),
        ("[" * 100_000, "cannot be read"),
        ('{"format": "tierc-bundle-2", "live": true}', "'tierc-bundle-2', not tierc-bundle-1"),
        ('{"live": true}', "format 'None'"),
        ('{"format": "tierc-bundle-1"}', "live is not"),
        ('{"format": "tierc-bundle-1", "live": 1}', "live is not"),
        ('{"format": "tierc-bundle-1", "live": true, "arch": 5}', "arch is not"),
        ('{"format": "tierc-bundle-1", "live": true, "names": []}', ""),
        ('{"format": "tierc-bundle-1", "live": true, "names": [1]}', "names is not"),
        ('{"format": "tierc-bundle-1", "live": true, "names": {"/a": ["../b"]}}', "names is not"),
        ('{"format": "tierc-bundle-1", "live": true, "names": {"a": []}}', "where a path must be"),
        ('{"format": "tierc-bundle-1", "live": true, "names": {"/a/../b": []}}', "a path must be"),
        ('{"format": "tierc-bundle-1", "live": true, "seen": {"/a": "pipe"}}', "seen is not"),
        ('{"format": "tierc-bundle-1", "live": true, "seen": {"/f": "file"}}', "two things about"),
        ('{"format": "tierc-bundle-1", "live": true, "errors": [["read", "/a", "E?"]]}', "errors"),
        ('{"format": "tierc-bundle-1", "live": true, "errors": [["fly", "/a", 13]]}', "errors"),
        ('{"format": "tierc-bundle-1", "live": true, "errors": [["read", "a", 13]]}', "a path"),
        ('{"format": "tierc-bundle-1", "live": true, "errors": [["read", "/a", 99999]]}', "errors"),
        ('{"format": "tierc-bundle-1", "live": true, "tools": [5]}', "tools is not"),
        ('{"format": "tierc-bundle-1", "live": true, "tools": [{"name": "x"}]}', "tools is not"),
        ('{"format": "tierc-bundle-1", "live": true, "tools": [{"name": "x", "argv": []}]}',
         "lacks the output of 'x'"),
    ],
)  # fmt: skip
def test_a_bundle_that_was_not_written_by_us(text: str, said: str) -> None:
    files = described(text, root__f=b"1")
    if not said:
        assert open_bundle(files).files.read("/f", 9) == b"1"
        return
    with pytest.raises(ReadError) as caught:
        open_bundle(files)
    assert said in caught.value.message


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=6),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["/a", "name", "argv", "error", "x"]), inner, max_size=3
            )
        ),
        max_leaves=8,
    ),
    st.sampled_from(["live", "arch", "host", "node", "names", "seen", "errors", "tools"]),
)
@settings(max_examples=150)  # fmt: skip
def test_any_description_is_read_or_refused(value: object, key: str) -> None:
    text = json.dumps({"format": "tierc-bundle-1", "live": True, key: value})
    try:
        open_bundle(described(text))
    except ReadError as error:
        shown = error.message
        assert shown.isprintable()


# --- what stays at home ------------------------------------------------------------------------


def test_secrets_do_not_leave_the_machine() -> None:
    files = MemoryFiles()
    for path, text in (
        ("/proc/cmdline", 'root=UUID=1 rd.luks.key=S3CRET isolcpus=2-3 nohz_full="2-3"\n'),
        ("/proc/cpuinfo", "processor : 0\nCPU part : 0xd0c\n\nSerial\t\t: 10000000S3CRET\n"),
        ("/proc/1/mounts", "//h/S3CRET /m cifs rw 0 0\nc /sys/fs/cgroup cgroup2 rw 0 0\n"),
        ("/proc/7/comm", "S3CRET-payroll\n"),
        ("/proc/8/comm", "kubelet\n"),
        ("/proc/8/cmdline", "kubelet\0--config=/c\0--token=S3CRET\0--password\0S3CRET\0--v\0001\0"),
        ("/proc/9/comm", "k3s-server\n"),
        ("/var/lib/kubelet/config.yaml",
         "a: 1\nstaticPodURLHeader:\n  Authorization:\n  - Basic S3CRET\nb: 2\n"),
    ):  # fmt: skip
        files.add(path, text.encode())
    files.add("/proc/self", Link("1"))
    files.add_error("read", "/proc/7/cmdline", 13)
    files.add_error("read", "/proc/8/status", 13)
    files.add_directory("/proc", ["7", "8", "10", "sys"])
    kept = redacted(files)
    contents = {path: node for path, node in kept.nodes() if isinstance(node, bytes)}
    assert b"S3CRET" not in b"".join(contents.values())
    assert kept.names("/proc") == ["1", "8", "9", "cmdline", "cpuinfo", "self", "sys"]
    assert contents == {
        "/proc/cmdline": b'isolcpus=2-3 nohz_full="2-3"\n',
        "/proc/cpuinfo": b"processor : 0\nCPU part : 0xd0c\n\n",
        "/proc/1/mounts": b"c /sys/fs/cgroup cgroup2 rw 0 0\n",
        "/proc/8/comm": b"kubelet\n",
        "/proc/8/cmdline": b"kubelet\0--config=/c\0--token=\0--password\0\0--v\0001\0",
        "/proc/9/comm": b"k3s-server\n",
        "/var/lib/kubelet/config.yaml": b"a: 1\nb: 2\n",
    }
    assert list(kept.errors()) == [("read", "/proc/8/status")]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("cgroupDriver: systemd\nreservedSystemCPUs: 0-1\n", None),
        ("a: 1\nclientToken: S3CRET\nb: 2\n", "a: 1\nb: 2\n"),
        ("authentication:\n  x509:\n    f: S3CRET\n\n  y: S3CRET\nb: 2\n", "b: 2\n"),
        ("staticPodURLHeader:\n- S3CRET\n- S3CRET\nb: 2\n", "b: 2\n"),
        ("x:\n  - password: |\n      S3CRET\n      S3CRET\n    y: 1\nz: 1\n", "x:\nz: 1\n"),
        ('"token" : S3CRET\n', ""),
        ("apiVersion: v1\nkind: Config\nusers:\n- user: {x: S3CRET}\n", "kind: Config\n"),
        ('{"kind": "Config", "users": ["S3CRET"]}', '{"kind": "Config"}\n'),
        ('{"a": [{"bearerToken": "S3CRET", "b": 1}]}', '{"a": [{"b": 1}]}\n'),
        ('{"policyName": "static", "entries": {"u": {"c": "1-2"}}}', None),
        ('{"token": "S3CRET"', "{"),
        ('{"a": ' * 50_000, "{"),
        ("-" * 60_000, None),
        ("- " * 30_000, None),
        ("HTTPS_PROXY=http://u:S3CRET@h\nKUBELET_EXTRA_ARGS=--v=1 --token=S3CRET -x\n",
         "KUBELET_EXTRA_ARGS=--v=1 --token= -x\n"),
        ("KUBELET_KUBEADM_ARGS=\"--node-ip=1 --bearer-token 'S3CRET' --v 2\"\n",
         'KUBELET_KUBEADM_ARGS="--node-ip=1 --bearer-token --v 2"\n'),
        ("--kubeconfig=${SNAP}/c\n--auth-token S3CRET\n--root-dir=/r\n",
         "--kubeconfig=${SNAP}/c\n--auth-token\n--root-dir=/r\n"),
    ],
)  # fmt: skip
def test_secrets_in_configuration_files(text: str, kept: str | None) -> None:
    assert without_secrets(text.encode()).decode() == (text if kept is None else kept)


def test_a_collection_asks_for_no_secret(tmp_path: Path) -> None:
    b = rich(tmp_path / "root")
    for path in ("etc/machine-id", "sys/class/dmi/id/product_serial", "proc/self/environ",
                 "etc/shadow", "sys/class/dmi/id/product_uuid"):  # fmt: skip
        b.file(path, "S3CRET\n")
    recording = RecordingFiles(DiskFiles(b.root))
    read_host(Tree(recording), live=True)
    data = pack(recording.recorded(), (), live=True, arch="x86_64", host="n")
    assert b"S3CRET" not in gzip.decompress(data)


# --- the same facts ----------------------------------------------------------------------------


@pytest.mark.parametrize("live", [True, False])
@pytest.mark.parametrize("build", [rich, gb10])
def test_a_bundle_has_the_facts_that_were_collected(
    tmp_path: Path, build: object, live: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert callable(build)
    b = build(tmp_path / "root")
    b.file("sys/devices/system/cpu/cpu0/cpu_capacity", "junk\n")  # a warning that must repeat
    outputs = (
        ToolOutput("nvidia-smi topo -m", ("/usr/bin/nvidia-smi", "topo", "-m"), TOPO),
        ToolOutput("nvidia-smi -q -x", ("/opt/x", "-q", "-x"), None, "exit status 9: no driver"),
    )
    monkeypatch.setattr(collect_module, "_ask", lambda: outputs)
    found = gather(b.root, name=None, live=live, tools=True, bundle=True)
    partials, data = found.partials, found.bundle
    assert data is not None
    assert len(partials) == (3 if live else 1)
    assert partials[0].online is not None
    assert any("cpu_capacity" in note.message for note in partials[0].notes)

    def elsewhere() -> os.uname_result:
        return os.uname_result(("Linux", "elsewhere", "1", "#1", "sparc64"))

    monkeypatch.setattr(os, "uname", elsewhere)
    again = read_bundle(unpacked(data))
    assert again == partials
    assert b"/opt/x" not in gzip.decompress(data)
    facts, repeated = (from_sources(one, name=None).facts for one in (partials, again))
    assert facts_yaml(repeated) == facts_yaml(facts)
    path = tmp_path / "b.tar.gz"
    write_bundle(path, data)
    (reading,) = read_path(path, "b.tar.gz")
    assert reading == Reading("bundle", partials)


def test_the_facts_of_this_machine_are_in_its_bundle() -> None:
    found = gather(Path("/"), name="here", live=True, bundle=True)
    assert found.bundle is not None
    assert read_bundle(unpacked(found.bundle)) == found.partials


def test_a_bundle_names_the_node_and_tools_of_later_versions_are_a_note(tmp_path: Path) -> None:
    b = gb10(tmp_path / "root")
    recording = RecordingFiles(DiskFiles(b.root))
    read_host(Tree(recording), live=False)
    outputs = (ToolOutput("new-smi", ("new-smi",), "?"),)
    data = pack(recording.recorded(), outputs, live=False, arch=None, host=None, node="n7")
    host, *others = read_bundle(unpacked(data))
    assert host.node == "n7"
    assert others == []
    assert host.notes[-1].message == "the bundle has the output of 'new-smi', which is not known"
