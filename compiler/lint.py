"""Running the rules, and judging all findings: severities and suppressions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from compiler.catalog import all_codes
from compiler.codes import engine as codes
from compiler.diagnostics import Diagnostic, Severity, Sink, Span
from compiler.pipeline import Compilation
from compiler.policy import Policy
from compiler.rules import RULES
from compiler.rules.rule import Rule
from compiler.source import SourceFile, Suppression
from compiler.suggest import nearest


@dataclass(frozen=True, slots=True)
class Judged:
    """Findings in report order, and how many were suppressed inline."""

    findings: tuple[Diagnostic, ...]
    suppressed: int

    def fails(self, at: Severity) -> bool:
        """Return whether any finding is at or above a severity."""
        return any(finding.severity >= at for finding in self.findings)


def run_rules(compilation: Compilation, sink: Sink, rules: Iterable[Rule] = RULES) -> None:
    """Run lint rules; a crash in one is one finding that names it."""
    place = _some_place(compilation.policy)
    for rule in rules:
        try:
            sink.extend(list(rule.check(compilation)))
        except Exception as error:  # a rule must not take the others' findings with it
            sink.add(
                codes.RULE_CRASHED.at(
                    place,
                    f"rule {rule.code.id} ({rule.code.name}) failed: "
                    f"{type(error).__name__}: {error}",
                    help="please report it; set lint.severity to off for this rule meanwhile",
                )
            )


def _some_place(policy: Policy) -> Span:
    return Span.of_file(min(policy.files, default="tierc.yaml"))


def judge(sink: Sink, policy: Policy | None, files: Mapping[str, SourceFile]) -> Judged:
    """Apply the project's severities and the inline suppressions.

    Only lint rules (adjustable codes) obey either; trying it on anything else is a finding.
    """
    severities: Mapping[str, str] = {}
    if policy is not None:
        severities = policy.project.spec.lint.severity
        _check_severities(policy, sink)
    wanted = [s for path in sorted(files) for s in files[path].suppressions]
    used: set[tuple[Span, str]] = set()
    suppressed = 0
    kept: list[Diagnostic] = []
    known = all_codes()
    by_line: dict[tuple[str, int], list[Suppression]] = {}
    for one in wanted:
        by_line.setdefault((one.path, one.line), []).append(one)
    for finding in sink.sorted():
        code = known[finding.code]
        if code.adjustable:
            level = severities.get(finding.code)
            if level == "off":
                continue
            if level is not None:
                finding = replace(finding, severity=Severity.parse(level))
            hits = [
                s
                for s in by_line.get((finding.span.path, finding.span.line), ())
                if finding.code in s.codes
            ]
            if hits:
                used |= {(s.comment_span, finding.code) for s in hits}
                suppressed += 1
                continue
        kept.append(finding)
    extra = Sink()
    for one in wanted:
        for name in one.codes:
            if (one.comment_span, name) not in used:
                extra.add(_unused(one, name))
    level = severities.get(codes.UNUSED_SUPPRESSION.id)
    for finding in extra:
        if finding.code == codes.UNUSED_SUPPRESSION.id and level is not None:
            if level == "off":
                continue
            finding = replace(finding, severity=Severity.parse(level))
        kept.append(finding)
    return Judged(tuple(sorted(kept, key=lambda d: d.sort_key)), suppressed)


def _unused(suppression: Suppression, name: str) -> Diagnostic:
    known = all_codes()
    if name not in known:
        close = nearest(name, known)
        return codes.UNKNOWN_CODE.at(
            suppression.comment_span,
            f"no finding has the code {name}",
            help=f"did you mean {close[0]}?" if close else "tierc rule lists all codes",
        )
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


def _check_severities(policy: Policy, sink: Sink) -> None:
    known = all_codes()
    doc = policy.project_doc
    if doc is None:
        return
    for name in sorted(policy.project.spec.lint.severity):
        span = doc.key_span("spec", "lint", "severity", name)
        if name not in known:
            close = nearest(name, known)
            sink.add(
                codes.UNKNOWN_CODE.at(
                    span,
                    f"no finding has the code {name}",
                    help=f"did you mean {close[0]}?" if close else "tierc rule lists all codes",
                )
            )
        elif not known[name].adjustable:
            sink.add(
                codes.NOT_SUPPRESSIBLE.at(
                    span,
                    f"{name} ({known[name].name}) is not a lint rule; its severity is fixed",
                )
            )
