"""npuviz query: SQL over a trace bundle."""

import json
from pathlib import Path
from typing import Annotated

import typer

from npuviz.cli.kit import options


def command(
    bundle: Annotated[Path, typer.Argument(help="Trace bundle, or a zip of one.")],
    sql: Annotated[str, typer.Argument(help="For example: select role, sum(cycles) from slices group by 1")],
    as_json: options.Json = False,
    timeout: Annotated[
        float | None,
        typer.Option("--timeout", metavar="SECONDS", min=0, help="End the query then (300); 0: never."),
    ] = None,
    unsafe: Annotated[
        bool,
        typer.Option("--unsafe", help="Let the SQL read and write files, load extensions, take any memory."),
    ] = False,
) -> None:
    """Ask a trace bundle with SQL (DuckDB); `show tables` lists tables and views.

    The SQL reaches the bundle's tables and nothing else, unless --unsafe says so.
    """
    from npuviz.trace.bundle.query import MAX_SECONDS, query
    from npuviz.workbench.headless.bundles import table_text

    found = query(bundle, sql, is_unsafe=unsafe, max_seconds=MAX_SECONDS if timeout is None else timeout)
    if as_json:
        rows = [dict(zip(found.columns, row, strict=True)) for row in found.rows]
        typer.echo(json.dumps({"columns": found.columns, "rows": rows}, default=str))
    else:
        typer.echo(table_text(found))
