"""Tables for terminals: cells in columns of equal width."""

from collections.abc import Collection, Sequence


def table_lines(rows: Sequence[Sequence[str]], right: Collection[int] = (), indent: str = "") -> list[str]:
    """One line a row, all rows with as many cells as the first; columns in `right` end flush right."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return [
        indent
        + "  ".join(
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
