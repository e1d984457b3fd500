"""What `npuviz accuracy` prints."""

from collections.abc import Sequence
from typing import Any

from npuviz.base.text_table import table_lines
from npuviz.workbench.headless.summary_text import check_lines

SHOWN = 60
"""Rows of a table; JSON has all."""
FIRST_BIN, LAST_BIN = 9, 32
"""Bins that get a character each, from 2**-23 on; smaller errors share one character before them."""
_LEVELS = " \u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588"


def histogram_text(counts: Sequence[int]) -> str:
    """Format the errors of elements as a row of bars: equal and below 2**-23, each power of two, not
    finite."""
    bars = [sum(counts[:FIRST_BIN]), *counts[FIRST_BIN : LAST_BIN + 1], sum(counts[LAST_BIN + 1 :])]
    most = max(bars) or 1
    # Rounded up, so that a bin with a single element still shows.
    return "".join(_LEVELS[-(-8 * bar // most)] for bar in bars)


def accuracy_text(found: dict[str, Any]) -> str:
    """Format the report as text."""
    lines = [f"{found['file']} on {found['target']}, {found['cycles']} cycles", *check_lines(found["check"])]
    rows = found["tensors"]
    if not rows:
        lines.append("  no tensor was compared")
    else:
        lines += [
            "",
            "  errors relative to the largest magnitude of the reference, SQNR in dB",
            *_table(rows),
        ]
    coarsest = found["largest_own_error"]
    if coarsest:
        lines.append(f"  largest own error by SQNR: {coarsest['operator']} ({coarsest['tensor']})")
    first = found["first_instruction"]
    if first:
        lines.append(f"  first wrong instruction: {first['index']}, {first['text']}")
    elif rows:
        rest = "; rounding makes the outputs wrong, see above" if found["exit"]["code"] else ""
        lines.append(f"  first wrong instruction: none, every operator is right on its own inputs{rest}")
    if "what_if" in found:
        lines += _what_if_lines(found["what_if"])
    return "\n".join(lines)


def _table(rows: Sequence[dict[str, Any]]) -> list[str]:
    shown = rows[:SHOWN]
    titles = ["depth", "operator", "tensor", "end to end", "SQNR", "cosine", "allowed", "own", "SQNR", "",
              "own errors: <2^-23 to 1, not finite"]  # fmt: skip
    cells = [titles]
    for row in shown:
        whole, own = row["end_to_end"], row["per_operator"]
        measured = own if "counts" in own else whole
        mark = "wrong" if own["class"] == "wrong" else "output" if row["is_output"] else ""
        cells.append(
            [
                str(row["depth"]),
                f"{row['op_type']} {row['operator']}".strip()[:32],
                row["tensor"][:32],
                _number(whole, "largest"),
                _number(whole, "sqnr_db", ".1f"),
                _number(whole, "cosine", ".6f"),
                f"{row['allowed']:.2g}" if row["allowed"] else "0",
                _number(own, "largest"),
                _number(own, "sqnr_db", ".1f"),
                mark,
                f"|{histogram_text(measured['counts'])}|" if "counts" in measured else "",
            ]
        )
    lines = table_lines(cells, right=(0, 3, 4, 5, 6, 7, 8), indent="  ")
    if len(rows) > SHOWN:
        lines.append(f"  ... and {len(rows) - SHOWN} more (--json lists all)")
    return lines


def _number(values: dict[str, Any], name: str, form: str = ".2g") -> str:
    if "counts" not in values:
        return "-"
    if name == "sqnr_db" and values["worst"] is None:
        return "equal"
    found = values[name]
    return "not finite" if found is None else format(found, form)


def _what_if_lines(found: dict[str, Any]) -> list[str]:
    rows = sorted(found["rows"], key=lambda row: -_size(row["outputs_error"]))
    lines = [
        "",
        "  one tensor in a narrower type, the rest as the model has it; the largest error of an output",
    ]
    cells = [["tensor", "kind", "type", "its error", "SQNR", "outputs"]]
    cells += [
        [
            row["tensor"][:40],
            row["kind"],
            row["type"],
            _plain(row["largest"]),
            "equal" if row["sqnr_db"] is None and row["largest"] == 0 else _plain(row["sqnr_db"], ".1f"),
            _plain(row["outputs_error"]),
        ]
        for row in rows[:SHOWN]
    ]
    lines += table_lines(cells, right=(3, 4, 5), indent="  ")
    if len(rows) > SHOWN:
        lines.append(f"  ... and {len(rows) - SHOWN} more (--json lists all)")
    for name, error in found["together"].items():
        lines.append(f"  all of them in {name}: outputs off by about {_plain(error)}")
    if found["left_out"]:
        lines.append(f"  not tried: {len(found['left_out'])} scalars")
    return lines


def _size(value: float | None) -> float:
    return float("inf") if value is None else value


def _plain(value: float | None, form: str = ".2g") -> str:
    return "not finite" if value is None else format(value, form)
