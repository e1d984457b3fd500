"""npuviz query: SQL over a trace bundle."""

import json
from pathlib import Path
from typing import Annotated

import typer

from npuviz.cli import options


def command(
    bundle: Annotated[Path, typer.Argument(help="Trace bundle, or a zip of one.")],
    sql: Annotated[str, typer.Argument(help="For example: select role, sum(cycles) from slices group by 1")],
    as_json: options.Json = False,
) -> None:
    """Ask a trace bundle with SQL (DuckDB); `show tables` lists tables and views."""
    from npuviz.trace.bundle.query import query
    from npuviz.workbench.headless.bundles import table_text

    found = query(bundle, sql)
    if as_json:
        rows = [dict(zip(found.columns, row, strict=True)) for row in found.rows]
        typer.echo(json.dumps({"columns": found.columns, "rows": rows}, default=str))
    else:
        typer.echo(table_text(found))
