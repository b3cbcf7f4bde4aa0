"""TRC100 to TRC149: findings about documents that can be read but are not in the language."""

from __future__ import annotations

from typing import Final

from compiler.diagnostics import Code, Severity

UNKNOWN_API_VERSION: Final = Code(
    "TRC100",
    "unknown-api-version",
    Severity.ERROR,
    """\
A document's `apiVersion` is missing or is not one this tierc knows.

Every document names the version of the language it is written in, so that an old compiler never
guesses at a new document.  Objects of Kubernetes have other versions; they are no source of tierc.

    apiVersion: tierc.dev/v1alpha1
    kind: Intent
""",
)
UNKNOWN_KIND: Final = Code(
    "TRC101",
    "unknown-kind",
    Severity.ERROR,
    """\
A document's `kind` is missing or is none of the language.

Kinds are Intent (what to do about which workload), EngineProfile (how an engine's threads are
recognised), TierLadder (the service levels), NodeFacts (what a node is), Demand (what was
measured) and Project (`tierc.yaml`).  Workload groups are built into tierc.

    kind: Intent
""",
)
UNKNOWN_KEY: Final = Code(
    "TRC102",
    "unknown-key",
    Severity.ERROR,
    """\
A mapping has a key that does not exist at this place.

A misspelt key would silently do nothing, so none is ignored.  Where the key exists elsewhere in
the document, the help says where.

    spec:
      protct: [decode]      # wrong
      protect: [decode]     # right
""",
)
MISSING_KEY: Final = Code(
    "TRC103",
    "missing-key",
    Severity.ERROR,
    """\
A mapping lacks a key that it must have.

    lane: {cores: {min: 2}}            # max is missing
    lane: {cores: {min: 2, max: 6}}    # right
""",
)
WRONG_TYPE: Final = Code(
    "TRC104",
    "wrong-type",
    Severity.ERROR,
    """\
A value is of another type than the key takes: a number where text belongs, one word where a list
belongs, and so on.

Nothing is converted silently: `version: 0.10` is the number 0.1 to a YAML reader, and a quoted
`"4"` is a text.

    version: 0.10       # a number: 0.1
    version: "0.10"     # right
""",
)
UNKNOWN_WORD: Final = Code(
    "TRC105",
    "unknown-word",
    Severity.ERROR,
    """\
A key takes one of a fixed set of words, and this is none of them.

    prefer: [gpu-locall]     # wrong
    prefer: [gpu-local]      # right
""",
)
MALFORMED_TEXT: Final = Code(
    "TRC106",
    "malformed-text",
    Severity.ERROR,
    """\
A text does not have the form its key needs: a name, a label, a version, a PCI address.

Names become parts of paths, cgroups and Kubernetes objects; what one of these would refuse, or
what a shell would interpret, is refused here.

    metadata: {name: Chat_1}     # wrong
    metadata: {name: chat-1}     # right
""",
)
OUT_OF_RANGE: Final = Code(
    "TRC107",
    "out-of-range",
    Severity.ERROR,
    """\
A number is too small or too large, or a list has too few or too many items.

    lane: {cores: 0}      # a lane has at least one core
""",
)
EMPTY_VALUE: Final = Code(
    "TRC108",
    "empty-value",
    Severity.ERROR,
    """\
A key is written without a value.

It reads like a value somebody forgot, and a matcher without a value would match everything.  Give
the key a value or remove it.  Only in node facts does an empty value have a meaning: unknown.

    match: [{comm: }]                # wrong
    match: [{comm: "stress-ng*"}]    # right
""",
)
INVALID_VALUE: Final = Code(
    "TRC109",
    "invalid-value",
    Severity.ERROR,
    """\
A value is of the right type but means nothing here, for example a CPU list that runs backwards
or a duration without a unit.

    slice: 3        # wrong
    slice: 3ms      # right
""",
)
CONTRADICTION: Final = Code(
    "TRC110",
    "contradiction",
    Severity.ERROR,
    """\
Parts of a document do not fit together: two keys that exclude each other, one that needs another,
or figures that contradict each other.

    spec:
      protect: [decode]
      demote: background     # an intent protects, demotes or keeps; not two of them
""",
)
INVALID_PATTERN: Final = Code(
    "TRC111",
    "invalid-pattern",
    Severity.ERROR,
    """\
A text is not a pattern of its kind.

Thread names take `*` and `?`.  In cgroup paths `*` and `?` stay within one component and `**` is
a component of its own that stands for any number of them; paths are below the cgroup v2 root and
have no leading slash.  Command lines take a small subset of regular expressions: literals, `.`,
classes, `* + ?`, `|`, groups and anchors.

    cgroup: /ci.slice/*      # wrong
    cgroup: ci.slice/**      # right
""",
)
DUPLICATE_DOCUMENT: Final = Code(
    "TRC112",
    "duplicate-document",
    Severity.ERROR,
    """\
Two documents of one kind have the same name.

Names are how intents, lanes and findings refer to each other; with two of a name the result would
depend on the order in which files are read.  Rename one of them.
""",
)
BUILT_IN_KIND: Final = Code(
    "TRC113",
    "built-in-kind",
    Severity.ERROR,
    """\
A WorkloadGroup was given.  Groups are part of tierc, so that the names of node software mean the
same everywhere.

Name the threads in the intent itself:

    workload: {match: [{comm: "my-daemon"}]}
""",
)
MORE_FINDINGS: Final = Code(
    "TRC115",
    "more-findings",
    Severity.ERROR,
    """\
A document has more faults than are shown.  Often they have one cause: a list that was meant to be
a mapping, or a file of another program.

Repair those shown and run tierc again.
""",
)
EMPTY_RANGE: Final = Code(
    "TRC114",
    "empty-version-range",
    Severity.ERROR,
    """\
No version satisfies a version range, so what it stands beside would never apply.

    versions: ">=0.25,<0.10.1"     # wrong
    versions: ">=0.10.1,<0.25"     # right
""",
)
