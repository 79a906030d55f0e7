"""A report as Markdown: first the verdict in one line, then only what matters, noise folded to a count. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from groundspeed.service.domain.pulls.commands import HELP
from groundspeed.service.domain.pulls.forge import Cause, Reply
from groundspeed.service.domain.pulls.report import SHOWN, Report, Row, RowKind
from groundspeed.service.forge import kernels
from groundspeed.service.forge.escape import code, markdown, visible

MARKER = "<!-- groundspeed -->"
"""First line of our comment, by which it is found again."""
RETIRED = "<!-- groundspeed: superseded -->"
ANNOTATIONS = 50
"""As many as the forge takes at a time."""
LIMIT = 65_000
"""Characters; the forge refuses 65,536 and counts its own way."""
_HEADINGS: dict[RowKind, str] = {
    "regressed": "Slower",
    "failing": "Failing",
    "improved": "Faster",
    "changed": "Changed",
    "new": "New, nothing to compare with",
    "never-compared": "Never compared",
    "inconclusive": "Could not tell",
    "unchanged": "Unchanged",
}


def headline(report: Report) -> str:
    """The verdict in one line: what, how many compared, what could have been seen."""
    states = {
        "waiting": "Waiting for a machine",
        "running": f"Measuring: {report.done} of {report.total} done",
        "approval": "Waiting for a maintainer: a stranger's code is not run without approval of this very commit",
        "nothing-to-measure": "Nothing to measure: only files changed that no benchmark depends on",
        "draft": "Drafts are not measured here",
        "unlabelled": "Not measured: the label that asks for it is missing",
        "cancelled": "Cancelled",
        "error": "Could not be measured",
    }
    if report.state != "done":
        return states[report.state]
    return f"{_verdict(report)}. {_coverage(report)}"


def _verdict(report: Report) -> str:
    counts = {kind: len(report.of(kind)) for kind in _HEADINGS}
    words = {"regressed": "slower", "failing": "failing", "improved": "faster", "changed": "changed"}
    said = [f"{counts[k]} {word}" for k, word in words.items() if counts[k]]  # type: ignore[index]
    if said:
        text = ", ".join(said)
        return f"{text[0].upper()}{text[1:]}" + (" (accepted as intended)" if report.accepted else "")
    if report.compared == 0:
        return "Nothing was compared"
    return "No change seen" if not counts["inconclusive"] else "No change seen, and not everything could be told"


def _coverage(report: Report) -> str:
    compared = f"{report.compared} metrics compared" if report.compared != 1 else "1 metric compared"
    seen = report.could_have_seen
    return (
        compared if seen is None else f"{compared}; a change of {_percent(seen, sign=False)} or more would have shown"
    )


def comment(report: Report) -> str:
    """The one comment of a pull request, whole or cut with a link, never over the forge's limit."""
    return f"{MARKER}\n### {headline(report)}\n\n{body(report, LIMIT - 1000)}"


def body(report: Report, limit: int = LIMIT) -> str:
    """What stands under the headline, also used as the check's summary; at most ``limit`` characters."""
    head = [f"{code(report.base_sha[:10])} → {code(report.head_sha[:10])} · [details]({report.url})"]
    if report.where:
        head.append(f"on {markdown(report.where, 300)}")
    if report.accepted:
        head.append(f"accepted: {markdown(report.accepted, 300)}")
    lines = [" · ".join(head)]
    if report.note:
        lines += ["", markdown(report.note, 1000)]
    if report.state == "approval":
        lines += ["", _how_to_approve(report)]
    budget = limit - sum(len(line) + 1 for line in lines) - 600
    for kind in SHOWN:
        section, budget = _section(kind, report.of(kind), budget)
        lines += section
        if kind == "regressed":
            section, budget = kernels.sections(report.explained(kind), budget)
            lines += section
    folded = [f"{len(report.of(k))} {_HEADINGS[k].lower()}" for k in ("unchanged", "inconclusive") if report.of(k)]
    if folded:
        lines += ["", f"<sub>{', '.join(folded)} · [all]({report.url})</sub>"]
    return "\n".join(lines)


def _how_to_approve(report: Report) -> str:
    label = f", add the label {code(report.approve_label)}" if report.approve_label else ""
    command = code(f"/groundspeed approve {report.head_sha[:12]}")
    return (
        f"A maintainer who has read the change lets it run: press *Approve and run* on the check{label}, or comment "
        f"{command}. It runs in a sandbox, without network and without secrets; new commits need a new approval."
    )


def retired(report: Report) -> str:
    """What becomes of a comment whose verdict no longer holds."""
    return f"{RETIRED}\n<sub>An earlier verdict stood here. Now: {headline(report)} ([details]({report.url})).</sub>"


def reply(answer: Reply) -> str:
    """Our words with what strangers said as inline code, and the list of commands where that helps."""
    words = answer.words.format(*(code(text, 400) or "nothing" for text in answer.quoted))
    return f"{words}\n\n{HELP}" if answer.help else words


def marks(report: Report) -> list[dict[str, str | int]]:
    """Regressed and failing rows, each at the suite's place in groundspeed.toml; the worst first."""
    lines = dict(report.lines)
    found: list[dict[str, str | int]] = []
    levels: tuple[tuple[RowKind, str], ...] = (("regressed", "warning"), ("failing", "failure"))
    for kind, level in levels:
        for row in report.of(kind):
            line = lines.get(row.suite, 1)
            said = _percent(row.effect) if row.effect is not None else visible(row.reason, 300)
            found.append(
                {
                    "path": "groundspeed.toml",
                    "start_line": line,
                    "end_line": line,
                    "annotation_level": "notice" if report.accepted else level,
                    "title": visible(f"{_HEADINGS[kind]}: {row.benchmark}", 200),
                    "message": f"{visible(row.metric, 100)}: {said or 'no value'}{_mostly(row)}",
                }
            )
    return found[:ANNOTATIONS]


def _mostly(row: Row) -> str:
    culprit = row.kernels.culprit if row.kernels is not None else ""
    return f", mostly {visible(culprit, kernels.NAME)}" if culprit else ""


def issue_marker(cause: Cause) -> str:
    return f"<!-- groundspeed regression {cause.regression_id} -->"


def issue(cause: Cause) -> tuple[str, str]:
    """Title and body of the issue about one cause."""
    lines = [issue_marker(cause), f"**{markdown(cause.title, 200)}** · [details]({cause.url})", ""]
    lines += ["| benchmark | metric | change |", "|---|---|--:|"]
    for name, metric, effect in cause.members[:50]:
        lines.append(f"| {markdown(name)} | {markdown(metric)} | {'' if effect is None else _percent(effect)} |")
    if len(cause.members) > 50:
        lines.append(f"\n… and {len(cause.members) - 50} more: see the details")
    lines += ["", f"It came after {code(cause.before_sha[:12])} and was there at {code(cause.after_sha[:12])}."]
    if cause.suspects:
        lines += ["", f"Suspect commits ({cause.suspects_total}):", ""]
        lines += [f"- {code(sha[:12])} {markdown(title, 100)}" for sha, title in cause.suspects]
        if cause.suspects_total > len(cause.suspects):
            lines.append(f"- … and {cause.suspects_total - len(cause.suspects)} more")
    if cause.pulls:
        lines += ["", "Pull requests: " + ", ".join(f"#{number}" for number in cause.pulls)]
    if cause.closed_because:
        lines += ["", f"Closed: {markdown(cause.closed_because, 300)}."]
    return visible(f"Performance: {cause.title}", 200), "\n".join(lines)[:LIMIT]


def _section(kind: RowKind, rows: Sequence[Row], budget: int) -> tuple[list[str], int]:
    """Rows of one kind as a table, as many as fit; what does not fit is counted, never silently dropped."""
    if not rows:
        return [], budget
    lines = ["", f"**{_HEADINGS[kind]}**", "", *_head(kind)]
    used = sum(len(line) + 1 for line in lines)
    for shown, row in enumerate(rows):
        line = _line(row)
        if used + len(line) + 80 > budget:
            lines.append(f"\n… and {len(rows) - shown} more: see the details")
            break
        lines.append(line)
        used += len(line) + 1
    return lines, max(0, budget - used)


def _head(kind: RowKind) -> tuple[str, str]:
    if kind in {"failing", "new", "never-compared"}:
        return "| benchmark | metric | why | repeat it |", "|---|---|---|---|"
    return "| benchmark | metric | change | interval | repeat it |", "|---|---|--:|--:|---|"


def _line(row: Row) -> str:
    name = f"[{markdown(row.benchmark)}]({row.url})" if row.url else markdown(row.benchmark)
    repeat = code(row.repeat, 400) if row.repeat else ""
    if row.effect is None:
        return f"| {name} | {markdown(row.metric)} | {markdown(row.reason, 200)} | {repeat} |"
    interval = "" if row.low is None or row.high is None else f"{_percent(row.low)} … {_percent(row.high)}"
    culprit = row.kernels.culprit if row.kernels is not None else ""
    metric = f"{markdown(row.metric)}, mostly {code(culprit, kernels.NAME)}" if culprit else markdown(row.metric)
    return f"| {name} | {metric} | **{_percent(row.effect)}** | {interval} | {repeat} |"


def _percent(value: float, *, sign: bool = True) -> str:
    """A relative change with as many digits as it deserves: +3.2 %, -0.21 %."""
    digits = 1 if abs(value) >= 0.01 else 2
    return f"{100 * value:{'+' if sign else ''}.{digits}f} %"
