"""Compared tensors, and tensors in narrower types, as rows of tables."""

import math
from typing import Any

from PySide6.QtCore import Qt

from npuviz.base.names import echo
from npuviz.onnx.check.rounding import Rounded
from npuviz.program.graph import Graph
from npuviz.sim.check_result import Spread
from npuviz.ui.kit.row_model import RowModel
from npuviz.ui.theme.theme import Theme
from npuviz.workbench.accuracy.rows import Row, worst_element

OPERATOR, WHOLE, SQNR, OWN, OWN_SQNR, ALLOWED, DEPTH, COSINE, TENSOR = range(9)


def share_text(value: float) -> str:
    """Return the text of an error that is relative to the largest magnitude."""
    return f"{value:.2g}" if math.isfinite(value) else "not finite"


def sqnr_text(spread: Spread) -> str:
    """Return the text of a signal to quantization noise ratio in dB; "equal" without any error."""
    if spread.worst < 0:
        return "equal"
    return f"{spread.sqnr:.1f}" if math.isfinite(spread.sqnr) else "not finite"


class AccuracyTable(RowModel[Row]):
    """One row for each compared tensor, in program order."""

    titles = ("Operator", "End to end", "SQNR dB", "Own error", "Own SQNR", "Allowed", "Depth", "Cosine",
              "Tensor")  # fmt: skip
    numbers = (WHOLE, SQNR, OWN, OWN_SQNR, ALLOWED, DEPTH, COSINE)

    def __init__(self, theme: Theme, parent: Any = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.graph: Graph | None = None

    def text(self, row: Row, column: int) -> str:
        whole, own = row.errors.whole, row.errors.own
        if column in (OPERATOR, TENSOR, DEPTH):
            return {OPERATOR: echo(row.label), TENSOR: echo(row.name), DEPTH: str(row.depth)}[column]
        if column == ALLOWED:
            return share_text(row.errors.allowed) if row.errors.allowed else "0"
        spread = own if column in (OWN, OWN_SQNR) else whole
        if spread is None:
            return ""
        if column in (SQNR, OWN_SQNR):
            return sqnr_text(spread)
        return f"{spread.cosine:.6f}" if column == COSINE else share_text(spread.largest)

    def tooltip(self, row: Row, column: int) -> str:
        errors = row.errors
        lines = [
            echo(row.name),
            f"End to end: {errors.whole_class}",
            f"On the machine's own inputs: {errors.own_class}",
        ]
        spread = errors.own if column in (OWN, OWN_SQNR) else errors.whole
        if spread is not None and spread.worst >= 0 and self.graph is not None:
            at = ", ".join(map(str, worst_element(spread, self.graph.tensors[errors.tensor].shape)))
            lines.append(f"Farthest off: [{at}], {spread.found:.6g} instead of {spread.expected:.6g}")
        return "\n".join(lines)

    def other(self, row: Row, column: int, role: int) -> Any:
        if role == Qt.ItemDataRole.ForegroundRole and row.errors.own_class == "wrong":
            return self._theme.color("error")
        return None


class RoundedTable(RowModel[Rounded]):
    """One row for each tensor: the error of the outputs when only this tensor has a narrower type."""

    titles = ("Tensor", "Kind", "Its error", "SQNR dB", "Outputs off by")
    numbers = (2, 3, 4)

    def __init__(self, parent: Any = None) -> None:
        super().__init__(parent)
        self.graph: Graph | None = None

    def text(self, row: Rounded, column: int) -> str:
        name = self.graph.tensors[row.tensor].name if self.graph is not None else ""
        return (
            echo(name),
            row.kind,
            share_text(row.own.largest),
            sqnr_text(row.own),
            share_text(row.outputs),
        )[column]

    def tooltip(self, row: Rounded, column: int) -> str:
        return "Largest errors, relative to the largest magnitude; everything else is as the model has it"
