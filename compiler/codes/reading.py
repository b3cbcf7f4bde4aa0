"""TRC001 to TRC049: findings about files, characters and notation."""

from __future__ import annotations

from typing import Final

from compiler.diagnostics import Code, Severity

UNREADABLE_FILE: Final = Code(
    "TRC001",
    "unreadable-file",
    Severity.ERROR,
    """\
A file or directory that was named cannot be read: it does not exist, it is not a regular file,
or the permission is missing.

The result would silently lack what the file says, so nothing is compiled.

Check the spelling of the path (paths are relative to the root of the policy repository) and its
permissions.
""",
)
FILE_TOO_LARGE: Final = Code(
    "TRC002",
    "file-too-large",
    Severity.ERROR,
    """\
A source file is larger than 4 MiB.  Reading is bounded, because the compiler also runs on files
that somebody else wrote.

Split the file; documents may be spread over any number of files.
""",
)
PATH_OUTSIDE_ROOT: Final = Code(
    "TRC003",
    "path-outside-root",
    Severity.ERROR,
    """\
A path is absolute, has a `..` step, or is a symbolic link that leads out of the policy
repository.

A repository that names files outside itself compiles differently on each machine, and could make
a build machine show files that the author of the policy may not read.

Use paths below the root, and copy what a link points to.

    sources: {intents: [../shared/intents]}     # refused
    sources: {intents: [intents]}               # right
""",
)
NOT_A_SOURCE_FILE: Final = Code(
    "TRC004",
    "not-a-source-file",
    Severity.ERROR,
    """\
A file was named whose name ends in none of `.yaml`, `.yml`, `.json`, so it is not known how to
read it.

Rename the file, or name another one.
""",
)
TOO_MANY_FILES: Final = Code(
    "TRC005",
    "too-many-files",
    Severity.ERROR,
    """\
A directory has more than 100,000 entries below it.  It is probably not a policy repository.

Name the directories that hold intents and node facts.
""",
)

NOT_UTF8: Final = Code(
    "TRC010",
    "not-utf8",
    Severity.ERROR,
    """\
The file is not UTF-8 text: it holds a byte that cannot occur there, or it is UTF-16 or UTF-32.

Save it as UTF-8.  A byte order mark at the very start is accepted.

    iconv -f UTF-16 -t UTF-8 old.yaml > new.yaml
""",
)
FORBIDDEN_CHARACTER: Final = Code(
    "TRC011",
    "forbidden-character",
    Severity.ERROR,
    """\
The file holds a character that may stand nowhere in it, not even in a comment:

- control characters other than tab and line feed, and DEL;
- line ends that only some programs take for one: a lone carriage return, U+0085, U+2028, U+2029.
  (CR LF is accepted.)
- characters that change the direction of text (U+202A to U+202E, U+2066 to U+2069, U+200E,
  U+200F, U+061C): with them a reviewer sees another text than the compiler;
- U+FEFF anywhere but at the start, U+FFFE and U+FFFF.

Delete it.  Where the character is meant, write it as an escape in double quotes.

    note: "two\\u2028lines"
""",
)
INVISIBLE_CHARACTER: Final = Code(
    "TRC012",
    "invisible-character",
    Severity.ERROR,
    """\
A blank that is not a space (such as the no-break space U+00A0), or a character of no width (such
as U+200B), stands outside quotes and comments.  YAML takes it as part of the word next to it:
`tier:<U+00A0>latency` is one word, not a key and a value.  It usually comes from copying out of
a web page.

Replace it with a space or delete it.  Where it is meant, put the text in quotes.
""",
)
TAB_INDENTATION: Final = Code(
    "TRC013",
    "tab-indentation",
    Severity.ERROR,
    """\
A line is indented with a tab.  YAML allows only spaces there, and parsers differ in what they do
with a tab.

Replace each tab with spaces.
""",
)

YAML_SYNTAX: Final = Code(
    "TRC020",
    "yaml-syntax",
    Severity.ERROR,
    """\
The file is not YAML at this place.  What follows it in the file is not read.

Common causes: a bracket or quote that is not closed, a value with `: ` or ` #` in it that needs
quotes, a line whose indentation belongs to no line above.

    match: {comm: a: b}        # refused
    match: {comm: "a: b"}      # right
""",
)
JSON_SYNTAX: Final = Code(
    "TRC021",
    "json-syntax",
    Severity.ERROR,
    """\
The file is called `.json` and is not JSON (RFC 8259) at this place.  What follows it in the file
is not read.

Common causes: a comma after the last item, comments, single quotes, `NaN`, numbers with a
leading zero.  For comments, use YAML.
""",
)
YAML_DIRECTIVE: Final = Code(
    "TRC022",
    "yaml-directive",
    Severity.ERROR,
    """\
The file has a directive (`%YAML`, `%TAG`).  They change how the rest is to be read, and readers
differ in whether they obey.

Delete the line; sources are read the same under YAML 1.1 and 1.2.
""",
)
EXPLICIT_TAG: Final = Code(
    "TRC023",
    "explicit-tag",
    Severity.ERROR,
    """\
A value carries a tag such as `!!str` or `!custom`.  The schema says what type each value has;
tags are not part of the language.

Delete the tag.  To make a text of something that looks like a number, quote it.

    version: !!str 0.24     # refused
    version: "0.24"         # right
""",
)
MERGE_KEY: Final = Code(
    "TRC024",
    "merge-key",
    Severity.ERROR,
    """\
`<<` merges another mapping into this one in YAML 1.1; YAML 1.2 has no such thing, so readers
differ in what the file says.

Write the keys out.  An alias for a whole value (`lane: *serving`) is accepted.
""",
)
AMBIGUOUS_SCALAR: Final = Code(
    "TRC025",
    "ambiguous-scalar",
    Severity.ERROR,
    """\
A value without quotes is a number, date or boolean to some YAML readers and something else to
others: `010` is 8 or 10, `1:30` is 90 or a text, `no` is false or a text, `1e3` is a text or a
number.  CPU lists, versions, PCI addresses and commit ids are hit by this.

Quote it where the text is meant; otherwise write it in the one form all readers agree on: plain
decimal numbers, `true`, `false`, `null`.

    commit: 25921e05      # refused: 2592100000 to some readers
    commit: "25921e05"    # right
""",
)
NUMBER_OUT_OF_RANGE: Final = Code(
    "TRC026",
    "number-out-of-range",
    Severity.ERROR,
    """\
A number does not fit into 64 bits, so programs that read it would differ in its value.

Write a smaller number, or quote it where the text is meant.
""",
)

KEY_NOT_STRING: Final = Code(
    "TRC030",
    "key-not-string",
    Severity.ERROR,
    """\
A key of a mapping is not a text: a number, a boolean, null, a list, a mapping or an alias.  Also
what only some readers take for one of these (`on`, `no`, `010`).

Quote the key.

    labels: {1: a}        # refused
    labels: {"1": a}      # right
""",
)
DUPLICATE_KEY: Final = Code(
    "TRC031",
    "duplicate-key",
    Severity.ERROR,
    """\
A mapping has the same key twice.  Readers differ: some keep the first, some the last and say
nothing.

Remove one of the two.
""",
)
DOCUMENT_NOT_MAPPING: Final = Code(
    "TRC032",
    "document-not-mapping",
    Severity.ERROR,
    """\
A document is a list or a single value.  Every document is a mapping with `apiVersion` and
`kind`; several documents in one file are separated by `---`.

    - kind: Intent        # refused: a list of documents
    ---
    kind: Intent          # right
""",
)
UNDEFINED_ALIAS: Final = Code(
    "TRC033",
    "undefined-alias",
    Severity.ERROR,
    """\
`*name` stands for the value marked `&name`, and there is no such value before it in this
document.  Anchors do not reach from one document to the next.

Write the value out, or correct the name.  For a text that starts with `*`, such as a glob, use
quotes.

    comm: *worker      # refused: an alias
    comm: "*worker"    # right: a glob
""",
)
RECURSIVE_ALIAS: Final = Code(
    "TRC034",
    "recursive-alias",
    Severity.ERROR,
    """\
`*name` is used inside the value that `&name` marks, so the value would contain itself.

Write the inner value out.
""",
)
DUPLICATE_ANCHOR: Final = Code(
    "TRC035",
    "duplicate-anchor",
    Severity.ERROR,
    """\
Two values of one document are marked with the same `&name`.  Readers differ in which one `*name`
means afterwards.

Rename one of the two.
""",
)

TOO_DEEP: Final = Code(
    "TRC040",
    "too-deep",
    Severity.ERROR,
    """\
Lists and mappings are nested more than 64 deep.  No kind of document needs more than a dozen, so
the file is broken or hostile.
""",
)
TOO_MANY_VALUES: Final = Code(
    "TRC041",
    "too-many-values",
    Severity.ERROR,
    """\
A file holds more than 200,000 values, counting each use of an alias with all that it stands for.

Aliases of aliases multiply: a dozen lines can stand for billions of values.  Write the values
out, or split the file.
""",
)
TOO_MANY_DOCUMENTS: Final = Code(
    "TRC042",
    "too-many-documents",
    Severity.ERROR,
    """\
A file holds more than 5,000 documents.

Split it into several files.
""",
)
TOO_MANY_FINDINGS: Final = Code(
    "TRC043",
    "too-many-findings",
    Severity.ERROR,
    """\
Reading one file gave 100 findings; the rest of it was not read.

Repair those shown first; often they have one cause.
""",
)
MALFORMED_SUPPRESSION: Final = Code(
    "TRC045",
    "malformed-suppression",
    Severity.WARNING,
    """\
A comment that starts with `# tierc:` is not a suppression in its only form:

    # tierc: ignore[TRC201] why this is right here
    # tierc: ignore[TRC201, TRC204] why this is right here

It needs at least one code and a reason, which the next reader will look for.  Behind a value it
covers its own line; alone on a line it covers the next line that is neither blank nor a comment.

As written it suppresses nothing.
""",
)
PARSER_MISSING: Final = Code(
    "TRC049",
    "parser-missing",
    Severity.ERROR,
    """\
The C parser of `ruamel.yaml` is not installed.  The parser written in Python reads some files
differently, so it is never used in its place.

    python3 -m pip install ruamel.yaml ruamel.yaml.clib
""",
)
