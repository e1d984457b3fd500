"""npuviz sweep: many runs over a design space."""

import json
from pathlib import Path
from typing import Annotated

import typer

from npuviz.cli.kit import options


def command(
    plan: Annotated[Path, typer.Argument(help="The plan, a TOML file.")],
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", metavar="DIR", help="Folder of results; default: PLAN.sweep here."),
    ] = None,
    processes: Annotated[
        int, typer.Option("--processes", metavar="N", min=0, max=1024, help="Worker processes; 0: one a CPU.")
    ] = 0,
    scheduler: Annotated[
        str, typer.Option("--scheduler", metavar="ADDRESS", help="A running Dask scheduler, tcp://host:port.")
    ] = "",
    report: Annotated[
        list[Path] | None,
        typer.Option("--report", metavar="FILE", help="Write a report, .html or .md. Repeatable."),
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Repeat runs that are done.")] = False,
    as_json: options.Json = False,
) -> None:
    """Run a model over a design space; finished runs are kept, so it can be stopped and resumed."""
    from npuviz.cli.kit.terminal import TerminalProgress
    from npuviz.workbench.sweep.dispatch import SweepOptions, run_sweep
    from npuviz.workbench.sweep.plan import read_plan
    from npuviz.workbench.sweep.report import check_report_name, outcome_text, outcome_values, write_report

    for path in report or ():
        check_report_name(path)
    chosen = read_plan(plan)
    folder = out or Path(f"{plan.stem}.sweep")
    with TerminalProgress() as progress:
        outcome = run_sweep(
            chosen,
            SweepOptions(folder, processes, scheduler, fresh),
            progress,
            lambda line: None if as_json else typer.echo(line, err=True),
        )
    for path in report or ():
        write_report(outcome.results, path)
    typer.echo(json.dumps(outcome_values(outcome, folder)) if as_json else outcome_text(outcome, folder))
    if outcome.failed == len(chosen.runs):
        raise typer.Exit(1)
