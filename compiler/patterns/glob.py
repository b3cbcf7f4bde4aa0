"""Globs on thread names and on cgroup paths: reading, matching and what they amount to.

**comm** globs speak of a thread's name as the kernel keeps it: 0 to 15 bytes, any byte but NUL.
(A program may blank its name, so the empty name exists; ``*`` matches it.)  ``*`` is any run of
bytes, ``?`` is one *byte*: ``caf?`` does not match ``café``, ``caf??`` does.

**cgroup** globs speak of a path from the cgroup v2 root, without leading slash: components that
are not empty, joined by ``/``.  The root itself is the empty path.  ``*`` and ``?`` stay inside
one component, which is never empty; a component ``**`` is any number of components, none
included, so ``x/**`` matches ``x``, and ``**`` matches every path and the root.

Everything else is literal: there are no classes, alternatives or escapes.  Texts that can only be
meant as one of these are refused rather than read literally, because they would match nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from compiler.patterns.automaton import Nfa
from compiler.patterns.glob_shape import GlobKind, Shape, automaton, path_automaton, shape
from compiler.patterns.glob_syntax import check_cgroup, check_comm
from compiler.patterns.globtext import cgroup_ere, comm_case, comm_ere
from compiler.patterns.names import COMM_BYTES, name_bytes


@dataclass(frozen=True, order=True)
class Glob:
    """A glob of one kind.  Equal when text and kind are; ordered by text, then kind.

    Make it with :meth:`comm` or :meth:`cgroup`.
    """

    text: str
    kind: GlobKind

    def __post_init__(self) -> None:
        if self.kind == "comm":
            check_comm(self.text)
        else:
            check_cgroup(self.text)

    @classmethod
    def comm(cls, text: str) -> Glob:
        """Read a glob on thread names (also of group leaders and kernel threads).

        A pattern that needs more than 15 bytes is accepted and matches nothing
        (:attr:`is_empty`): saying so, with the cut name, is the caller's.

        Raises:
            PatternError: the text is empty, longer than 64 bytes, or holds a control character,
                an escape, a class, an alternative, or a name in the brackets of ``ps``.
        """
        return cls(text, "comm")

    @classmethod
    def cgroup(cls, text: str) -> Glob:
        """Read a glob on cgroup paths.

        Raises:
            PatternError: the text is empty or longer than 512 bytes; has a leading or trailing
                slash, an empty, ``.`` or ``..`` component, ``**`` beside other characters, a
                component over 255 bytes, a control character, an escape, a class or an
                alternative.
            PatternTooComplex: it has more than 16 stars, or more than 8 components of nothing
                but wildcards behind a ``**``.
        """
        return cls(text, "cgroup")

    def matches(self, name: str | bytes) -> bool:
        """Tell whether the glob matches a name.

        A comm is compared as it is: one of more than 15 bytes is no name the kernel can hold and
        matches nothing (:func:`~compiler.patterns.truncate_comm` cuts).  A cgroup path may have
        the leading slash ``/proc/PID/cgroup`` writes.
        """
        data = name_bytes(name)
        if self.kind == "cgroup" and data.startswith(b"/"):
            data = data[1:]
        shape = self.shape
        if shape.exact is not None:
            return data == shape.exact
        if not (data.startswith(shape.head) and data.endswith(shape.tail)):
            return False  # as nearly all names; most globs never need their automaton
        if self.kind == "comm":
            return len(data) <= COMM_BYTES and self.automaton.accepts(data)
        return self.automaton.accepts(data) and path_automaton().accepts(data)

    @property
    def automaton(self) -> Nfa:
        """The automaton of the names that match, as far as they are names."""
        return automaton(self.text, self.kind)

    @property
    def shape(self) -> Shape:
        """What can be read off the glob's normal form."""
        return shape(self.text, self.kind)

    @property
    def exact(self) -> bytes | None:
        """The only name that matches, or None when none or several do.

        ``VLLM::EngineCor*`` is exact: behind 15 bytes there is no room for more.
        """
        return self.shape.exact

    @property
    def prefix(self) -> bytes | None:
        """What a name must start with, when that is all the glob says and it is not exact.

        ``*`` has the prefix ``b""``, and so has the cgroup glob ``**``.  ``a/**`` has none: it
        is no prefix of bytes (``ab`` starts with ``a``), see :attr:`subtree`.
        """
        return self.shape.prefix

    @property
    def subtree(self) -> bytes | None:
        """The cgroup that matches with all cgroups below it and nothing else, or None."""
        return self.shape.subtree

    @property
    def is_empty(self) -> bool:
        """Whether no name can match: a comm glob that needs more than 15 bytes."""
        return self.shape.is_empty

    @property
    def matches_all(self) -> bool:
        """Whether every name matches."""
        return self.shape.prefix == b""

    def as_ere(self) -> str:
        """Return an anchored POSIX extended regular expression that matches the same names.

        For ``grep -E`` and awk's dynamic expressions under ``LC_ALL=C``, where one byte is one
        character; for cgroups the path is without its leading slash.  Pass it to awk through
        ENVIRON: ``-v`` would read its backslashes.
        """
        text = self.shape.text
        return comm_ere(text) if self.kind == "comm" else cgroup_ere(text)

    def as_case(self) -> str:
        """Return a pattern for the shell's ``case`` that matches the same thread names.

        All but the wildcards is in single quotes.  Under ``LC_ALL=C``, as above.

        Raises:
            ValueError: this is a cgroup glob; in ``case`` a ``*`` crosses slashes.
        """
        if self.kind != "comm":
            raise ValueError("a cgroup glob cannot be a case pattern")
        return comm_case(self.shape.text)

    def __str__(self) -> str:
        return self.text
