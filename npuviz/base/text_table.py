"""Lay out tables for terminals, each column as wide as its widest cell."""

from collections.abc import Collection, Sequence


def table_lines(rows: Sequence[Sequence[str]], right: Collection[int] = (), indent: str = "") -> list[str]:
    """Return one line for each row; all rows have as many cells, and columns in `right` are aligned right."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return [
        indent
        + "  ".join(
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
