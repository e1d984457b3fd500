"""Writes parts of the pages when they are built, from what the code itself says.

A line `<!-- folders: npuviz/ui -->` becomes a table of the folders below, a line `<!-- records: PACKAGE -->`
the layout of every record that the kernel files of a package declare.
"""

import ast
import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from npuviz.sim.parts.record_kernels import Record

ROOT = Path(__file__).parents[1]
MARK = re.compile(r"^<!-- (folders|records): (\S+) -->$", re.MULTILINE)


def on_page_markdown(markdown: str, **_given: Any) -> str:
    """Called by MkDocs for each page: the page with its marks replaced."""
    makers = {"folders": folder_table, "records": record_tables}
    return MARK.sub(lambda mark: makers[mark[1]](mark[2]), markdown)


def folder_table(place: str) -> str:
    """Every package below a folder, with the first sentence of its docstring and its number of files."""
    rows = ["| Folder | Files | Holds |", "|---|---|---|"]
    for init in sorted((ROOT / place).rglob("__init__.py")):
        text = ast.get_docstring(ast.parse(init.read_text(encoding="utf-8"))) or ""
        count = sum(1 for path in init.parent.glob("*.py") if path != init)
        sentence = " ".join(text.split("\n\n")[0].split())
        rows.append(f"| `{init.parent.relative_to(ROOT)}` | {count} | {sentence} |")
    return "\n".join(rows)


def record_tables(package: str) -> str:
    """The layout of the records of a package's kernel files, each once, as text."""
    blocks = [f"```\n{record.table()}\n```" for record in records_of(package)]
    return "\n\n".join(blocks)


def records_of(package: str) -> Iterator[Record]:
    """The records that the modules of a package declare, by module."""
    seen: set[Record] = set()
    found = importlib.import_module(package)
    names = [package, *(m.name for m in pkgutil.walk_packages(found.__path__, f"{package}."))]
    for name in names:
        for value in vars(importlib.import_module(name)).values():
            if isinstance(value, Record) and value not in seen:
                seen.add(value)
                yield value
