"""Writes the page about onnx's backend test: for each operator where its cases ran, and why not on the
engines."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from npuviz.workbench.onnx_backend.cases import (
    CATEGORIES,
    COARSE,
    FAIL,
    FOLDED,
    HOST,
    PASS,
    ROUNDING,
    RUNTIME,
    UNSUPPORTED,
    CaseResult,
)

MAX_REASONS = 4
_TITLES = {
    PASS: "engines",
    COARSE: "engines, coarser",
    HOST: "host",
    FOLDED: "folded",
    ROUNDING: "rounding",
    RUNTIME: "runtime's own",
    UNSUPPORTED: "unsupported",
    FAIL: "fail",
}


def report(results: Mapping[str, CaseResult], *, machine: str, version: str, command: str) -> str:
    """Write the results as a Markdown page.

    machine  title of the machine that ran the cases;  version  of onnx;  command  that writes this page
    """
    totals = Counter(result.category for result in results.values())
    on_engines = [result for result in results.values() if result.category in (PASS, COARSE)]
    special = sum(bool(result.parameters) for result in on_engines)
    lines = [
        "# ONNX backend test",
        "",
        f"onnx {version} comes with {len(results)} cases of single operators. Each is compiled, run "
        f"cycle by cycle on the simulated {machine}, and its outputs are compared with the expected values "
        "by onnx's own rule.",
        "",
        "| Category | Cases | Meaning |",
        "|---|---:|---|",
        *(
            f"| {_TITLES[name]} | {totals[name]} | {_MEANINGS[name]}{_narrowed(results, name)} |"
            for name in CATEGORIES
        ),
        f"| all | {len(results)} | |",
        "",
        "A program of a chip has fixed sizes. Inputs that decide about sizes or about what is done (the "
        "shape of Reshape, the starts of Slice, pads, axes, repeats, K of TopK, scales of Resize ...) are "
        "therefore compiled into the program with the values given, as a just-in-time compiler does; other "
        "values mean compiling again. So are weights (those of Conv, MatMul, BatchNormalization ...) where "
        f"the machine then leaves fewer operators to the host. {special} of the cases on the engines have "
        "such inputs. Data never is: a case whose inputs are all parameters, so that the compiler knows the "
        "result, counts as folded, not as run on the engines.",
        "",
        "An operator without a lowering of its own is replaced by the function body that the ONNX standard "
        'gives it. Cases named "body" are those bodies as onnx\'s test writes them out.',
        "",
        f"Made by `{command}`.",
        "",
        "## By operator",
        "",
        "| Operator | Cases | "
        + " | ".join(_TITLES[name] for name in CATEGORIES)
        + " | Why not on the engines |",
        "|---|---:|" + "---:|" * len(CATEGORIES) + "---|",
    ]
    for (operator, is_body), group in sorted(_groups(results).items()):
        counts = Counter(result.category for result in group)
        title = f"{operator} (body)" if is_body else operator
        cells = " | ".join(str(counts[name] or "") for name in CATEGORIES)
        lines.append(f"| {title} | {len(group)} | {cells} | {_reasons(group)} |")
    failed = sorted(result.name for result in results.values() if result.category == FAIL)
    if failed:
        lines += ["", "## Failed cases", "", *(f"- `{name}`" for name in failed)]
    return "\n".join(lines) + "\n"


_MEANINGS = {
    PASS: "right values, every operator on the engines and DMA queues of the chip",
    COARSE: "every operator on the engines, outside of onnx's tolerance, but right within the one that "
    "follows from the machine's number types, also by [its own check](checks.md); or right for the "
    "inputs as those types hold them",
    HOST: "right values, but some operator ran on the host processor, for the reason given",
    FOLDED: "right values, known when compiling: all inputs are parameters",
    ROUNDING: "outside of onnx's tolerance, but within two units in the last place of the tensor's largest "
    "element: another order of rounding, in the expected values, too",
    RUNTIME: "not the expected values: the operator ran on the host processor, and ONNX Runtime alone "
    "computes the very same",
    UNSUPPORTED: "refused, with the reason",
    FAIL: "wrong values, or the run did not end",
}


def _narrowed(results: Mapping[str, CaseResult], category: str) -> str:
    """Write how many cases of a category were computed in a narrower type than float64, by operator."""
    found = [each for each in results.values() if each.category == category and each.is_narrowed]
    if not found:
        return ""
    counts = Counter(each.operator for each in found)
    which = ", ".join(f"{operator} {count}" for operator, count in sorted(counts.items()))
    return f"; {len(found)} have tensors of float64, which are held and computed as narrower floats ({which})"


def _groups(results: Mapping[str, CaseResult]) -> dict[tuple[str, bool], list[CaseResult]]:
    groups: dict[tuple[str, bool], list[CaseResult]] = defaultdict(list)
    for result in results.values():
        groups[result.operator, result.is_body].append(result)
    return groups


def _reasons(group: Iterable[CaseResult]) -> str:
    """Write the most frequent reasons, each with its number of cases."""
    counts: Counter[str] = Counter()
    for result in group:
        counts.update({_cell(reason) for reason in result.reasons})
    shown = [f"{reason} ({count})" for reason, count in counts.most_common(MAX_REASONS)]
    if len(counts) > MAX_REASONS:
        shown.append(f"{len(counts) - MAX_REASONS} more reasons")
    return "; ".join(shown)


def _cell(text: str) -> str:
    """Make text fit for a cell of a table: without temporary paths and bars, at most 140 characters."""
    parts = [part for part in text.replace("|", "/").split() if not part.startswith("/tmp/")]
    short = " ".join(parts).replace("<", "&lt;")
    return short if len(short) <= 140 else short[:139] + "\u2026"


def summary(results: Mapping[str, CaseResult]) -> str:
    """Write one line of totals."""
    totals = Counter(result.category for result in results.values())
    seconds = sum(result.seconds for result in results.values())
    counts = ", ".join(f"{_TITLES[name]} {totals[name]}" for name in CATEGORIES)
    each = seconds / len(results) if results else 0.0
    return f"{len(results)} cases: {counts}; {each:.3f} s a case"


def not_on_engines(results: Mapping[str, CaseResult]) -> str:
    """Write, for developers of lowerings, a plain text of the cases of each operator that are not `pass`."""
    lines = [summary(results), ""]
    for (operator, is_body), group in sorted(_groups(results).items()):
        rest = [result for result in group if result.category != PASS]
        if not rest:
            continue
        lines.append(
            f"{operator}{' (body)' if is_body else ''}: {len(group) - len(rest)} of {len(group)} pass"
        )
        for result in sorted(rest, key=lambda item: (item.category, item.name)):
            lines.append(f"    {result.category:12} {result.name}: {'; '.join(result.reasons)[:240]}")
    return "\n".join(lines) + "\n"
