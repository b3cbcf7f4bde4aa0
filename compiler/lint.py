"""Running the rules, and judging all findings: severities and suppressions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from compiler.catalog import all_codes
from compiler.codes import engine as codes
from compiler.diagnostics import Diagnostic, Severity, Sink, Span
from compiler.pipeline import Compilation
from compiler.policy import Policy
from compiler.rules import RULES
from compiler.rules.rule import Rule
from compiler.source import SourceFile, Suppression


@dataclass(frozen=True, slots=True)
class Judged:
    """Findings in report order, and how many were suppressed inline."""

    findings: tuple[Diagnostic, ...]
    suppressed: int

    def fails(self, at: Severity) -> bool:
        """Return whether any finding is at or above a severity."""
        return any(finding.severity >= at for finding in self.findings)


def run_rules(compilation: Compilation, sink: Sink, rules: Iterable[Rule] = RULES) -> None:
    """Run the lint rules that are not off; a crash in one is one finding that names it."""
    place = _some_place(compilation.policy)
    severities = compilation.policy.project.spec.lint.severity
    for rule in rules:
        if severities.get(rule.code.id) == "off":
            continue
        try:
            found = list(rule.check(compilation))
        except Exception as error:  # a rule must not take the others' findings with it
            said = " ".join(f"{type(error).__name__}: {error}".split())
            sink.add(
                codes.RULE_CRASHED.at(
                    place,
                    f"rule {rule.code.id} ({rule.code.name}) failed: {said}",
                    help="please report it with the documents that cause it; meanwhile "
                    f'lint: {{severity: {{{rule.code.id}: "off"}}}} in the project leaves the rule '
                    "out",
                )
            )
            continue
        sink.extend(_not_said(found, rule, sink))


def _not_said(found: Sequence[Diagnostic], rule: Rule, sink: Sink) -> list[Diagnostic]:
    """Leave out the nodes for which an earlier pass has said the same."""
    if not rule.yields_to:
        return list(found)
    said = {
        (None if rule.yields_to[one.code] == "node" else one.span, node)
        for one in sink
        if one.code in rule.yields_to
        for node in one.nodes
    }
    out = []
    for one in found:
        nodes = tuple(n for n in one.nodes if not {(None, n), (one.span, n)} & said)
        if nodes or not one.nodes:
            out.append(replace(one, nodes=nodes))
    return out


def _some_place(policy: Policy) -> Span:
    return Span.of_file(min(policy.files, default="tierc.yaml"))


def judge(sink: Sink, policy: Policy | None, files: Mapping[str, SourceFile]) -> Judged:
    """Apply the project's severities and the inline suppressions.

    Only lint rules (adjustable codes) obey either; trying it on anything else is a finding.  A
    comment that silences nothing is one too, unless it names the code of that finding as well, or
    only codes that the project has switched off.
    """
    severities: Mapping[str, str] = {}
    if policy is not None:
        severities = policy.project.spec.lint.severity
        _check_severities(policy, sink)
    wanted = [s for path in sorted(files) for s in files[path].suppressions]
    by_line: dict[tuple[str, int], list[Suppression]] = {}
    for one in wanted:
        by_line.setdefault((one.path, one.line), []).append(one)
    used: set[tuple[Span, str]] = set()
    suppressed = 0
    kept: list[Diagnostic] = []
    known = all_codes()
    for original in sink.sorted():
        finding: Diagnostic | None = original
        if known[original.code].adjustable:
            hits = [
                s
                for s in by_line.get((original.span.path, original.span.line), ())
                if original.code in s.codes
            ]
            finding = _adjusted(original, severities)
            if hits and finding is not None:
                used |= {(s.comment_span, original.code) for s in hits}
                suppressed += 1
                continue
        if finding is not None:
            kept.append(finding)
    for one in wanted:
        unused = [
            name
            for name in one.codes
            if (one.comment_span, name) not in used
            and not (name in known and known[name].adjustable and severities.get(name) == "off")
            and (name != codes.UNUSED_SUPPRESSION.id or len(one.codes) == 1)
        ]
        spare = codes.UNUSED_SUPPRESSION.id in one.codes and len(one.codes) > 1
        for found in (_unused(one, name) for name in unused):
            if found.code != codes.UNUSED_SUPPRESSION.id:
                kept.append(found)
            elif (adjusted := _adjusted(found, severities)) is not None:
                suppressed += spare
                kept += [] if spare else [adjusted]
    return Judged(tuple(sorted(kept, key=lambda d: d.sort_key)), suppressed)


def _adjusted(finding: Diagnostic, severities: Mapping[str, str]) -> Diagnostic | None:
    """Return the finding at the project's severity, None where it is off."""
    level = severities.get(finding.code)
    if level is None:
        return finding
    return None if level == "off" else replace(finding, severity=Severity.parse(level))


def _unused(suppression: Suppression, name: str) -> Diagnostic:
    known = all_codes()
    if name not in known:
        return _unknown(suppression.comment_span, name)
    if not known[name].adjustable:
        return codes.NOT_SUPPRESSIBLE.at(
            suppression.comment_span,
            f"{name} ({known[name].name}) is not a lint rule and cannot be suppressed",
            help="remove the comment, and the cause of the finding",
        )
    return codes.UNUSED_SUPPRESSION.at(
        suppression.comment_span,
        f"nothing on line {suppression.line} has the code {name}",
        help="remove the comment",
    )


def _unknown(span: Span, name: str) -> Diagnostic:
    # No suggestion: codes that look alike have nothing to do with each other.
    return codes.UNKNOWN_CODE.at(
        span, f"no finding has the code {name}", help="tierc rule lists all codes"
    )


def _check_severities(policy: Policy, sink: Sink) -> None:
    known = all_codes()
    doc = policy.project_doc
    if doc is None:
        return
    for name in sorted(policy.project.spec.lint.severity):
        span = doc.key_span("spec", "lint", "severity", name)
        if name not in known:
            sink.add(_unknown(span, name))
        elif not known[name].adjustable:
            sink.add(
                codes.NOT_SUPPRESSIBLE.at(
                    span,
                    f"{name} ({known[name].name}) is not a lint rule; its severity is fixed",
                    help="remove the line; tierc rule says which codes are lint rules",
                )
            )
