"""The compilations that tests ask: the policy's own, and one a set of fixture nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from compiler.codes import engine as engine_codes
from compiler.decode import Loaded, check_unique
from compiler.diagnostics import Diagnostic, Severity, Sink, Span
from compiler.facts.validate import validate
from compiler.lint import judge, run_rules
from compiler.model.cluster import Rollout
from compiler.model.facts import NodeFacts
from compiler.model.policytest import PolicyTest
from compiler.pipeline import Compilation, CompiledClass, compile_policy
from compiler.policy import Policy
from compiler.policytest.load import Suite, facts_paths
from compiler.source import Document, SourceFile


@dataclass(frozen=True)
class World:
    """A compilation and what there is to say about it."""

    compilation: Compilation
    findings: tuple[Diagnostic, ...]

    @property
    def policy(self) -> Policy:
        """The policy that was compiled."""
        return self.compilation.policy

    def classes(self, names: Sequence[str]) -> Iterator[tuple[CompiledClass, tuple[str, ...]]]:
        """Yield the classes that have any of the nodes, each with those it has."""
        for group in self.compilation.classes:
            mine = tuple(name for name in group.nodes if name in names)
            if mine:
                yield group, mine

    def errors_of(self, names: Sequence[str]) -> list[Diagnostic]:
        """Return the errors that keep these nodes from having a plan."""
        return [
            d
            for d in self.findings
            if d.severity is Severity.ERROR and (not d.nodes or set(d.nodes) & set(names))
        ]


class Worlds:
    """Makes each world once, when it is asked for.

    ``loading`` are the findings of reading the policy.
    """

    def __init__(self, policy: Policy, suite: Suite, loading: Sequence[Diagnostic]) -> None:
        self._policy = policy
        self._suite = suite
        self._loading = loading
        self._made: dict[tuple[str, ...], World] = {}

    @property
    def own(self) -> World:
        """The policy with its own nodes."""
        return self._of(())

    def of(self, test: Loaded[PolicyTest]) -> World:
        """Return the world that a test asks."""
        return self._of(facts_paths(test))

    def _of(self, paths: tuple[str, ...]) -> World:
        if paths not in self._made:
            policy = self._policy
            made = self._with(paths) if paths else _world(policy, self._loading, policy.files)
            self._made[paths] = made
        return self._made[paths]

    def _with(self, paths: Sequence[str]) -> World:
        """Compile the policy with the nodes of some files in the place of its own.

        Nothing is said about its own nodes then, nor about comments that suppress what is only
        found there.
        """
        sink = Sink()
        own = [node.doc for node in self._policy.nodes]
        sink.extend(d for d in self._loading if not any(is_in(d.span, doc) for doc in own))
        nodes = sorted((n for path in paths for n in self._suite.facts[path]), key=_name)
        check_unique(nodes, sink)
        for node in nodes:
            validate(node, sink)
        fixtures = {path: self._suite.files[path] for path in paths}
        files = {**self._policy.files, **fixtures}
        spec = self._policy.project.spec.model_copy(update={"rollout": Rollout()})
        project = self._policy.project.model_copy(update={"spec": spec})  # its steps name own nodes
        policy = replace(self._policy, nodes=tuple(nodes), project=project)
        world = _world(policy, list(sink), files)
        unused = engine_codes.UNUSED_SUPPRESSION.id
        return replace(world, findings=tuple(d for d in world.findings if d.code != unused))


def is_in(span: Span, document: Document) -> bool:
    """Return whether a place is in a document."""
    whole = document.span()
    return span.path == whole.path and whole.line <= span.line <= whole.end_line


def _world(policy: Policy, loading: Sequence[Diagnostic], files: Mapping[str, SourceFile]) -> World:
    sink = Sink()
    sink.extend(loading)
    compilation = compile_policy(policy, sink)
    run_rules(compilation, sink)
    return World(compilation, judge(sink, policy, files).findings)


def _name(node: Loaded[NodeFacts]) -> str:
    return node.name
