"""Codes of policy tests as documents (TRC150-TRC169); that a test fails is no finding."""

from __future__ import annotations

from typing import Final

from compiler.diagnostics import Code, Severity

UNKNOWN_NAME: Final = Code(
    "TRC150",
    "test-unknown-name",
    Severity.ERROR,
    """\
A PolicyTest names a node, intent, unit, tier, lane, file or finding code that does not exist.

Such a test would check nothing, or could never pass. `notSharingWith` takes names of lanes,
intents and units, and the words `housekeeping` and `leftovers`.

    expect: {intent: caht}     # wrong
    expect: {intent: chat}     # right
""",
)
SELECTS_NO_NODE: Final = Code(
    "TRC151",
    "test-selects-no-node",
    Severity.ERROR,
    """\
`nodes` of a PolicyTest selects no node, so that the test would check nothing.

The selector is applied to the nodes of the policy or, where the test has `facts`, to the nodes in
those files. Correct the labels or names, or leave `nodes` out to test all of them.
""",
)
FOREIGN_DOCUMENT: Final = Code(
    "TRC152",
    "document-among-tests",
    Severity.ERROR,
    """\
A directory of tests holds a document that is neither a PolicyTest nor NodeFacts.

What is in `sources.tests` never becomes part of the policy: an Intent there would be read and
not used. Move the document to `intents/`. NodeFacts there are fixtures, used by the tests that
name their file under `facts`.
""",
)
FACTS_UNUSABLE: Final = Code(
    "TRC153",
    "test-facts-unusable",
    Severity.ERROR,
    """\
A file named under `facts` of a PolicyTest does not exist, lies outside the policy repository,
cannot be read, or holds no NodeFacts.

Paths are relative to the file of the test:

    facts: [fixtures/box.yaml]      # tests/fixtures/box.yaml, seen from tests/chat.yaml
""",
)
SNAPSHOT_OUTSIDE: Final = Code(
    "TRC154",
    "snapshot-outside",
    Severity.ERROR,
    """\
`snapshot` of a PolicyTest names a file outside the policy repository.

`tierc test --update` writes snapshots, and writes nothing outside the repository. Paths are
relative to the file of the test:

    snapshot: snapshots/spark-a.plan.json
""",
)
