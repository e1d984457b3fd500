"""npuviz races: runs a program with varied latencies, and finds reads of other values."""

import json
from typing import Annotated

import typer

from npuviz.cli.kit import options


def command(
    *,
    model: Annotated[str, typer.Argument(help="Model file, program, or name of a sample model.")],
    seeds: Annotated[int, typer.Option("--seeds", metavar="N", help="Runs, under seeds 1 to N.")] = 100,
    given: options.ProgramOptions,
    jobs: Annotated[
        int, typer.Option("--jobs", metavar="N", min=0, help="Processes; default: one a processor.")
    ] = 0,
    as_json: options.Json = False,
) -> None:
    """Run a program under many latencies and name the first read that sees another value than nominally.

    Each seed changes the latencies of engines, DMA and memory within bounds that are printed; each can be
    replayed with `--set latency_seed=N`. Ends with 0 if none was found, 3 if one was.
    """
    from npuviz.cli.kit.terminal import TerminalProgress
    from npuviz.workbench.choosing import find_file
    from npuviz.workbench.headless.exit_codes import EXIT_MISBEHAVED
    from npuviz.workbench.processes import default_jobs
    from npuviz.workbench.races.search import find_races, has_found, races_text

    path = find_file(model, given.config)
    with TerminalProgress() as progress:
        found = find_races(path, given.opening(), seeds, jobs or default_jobs(), progress)
    typer.echo(json.dumps(found) if as_json else races_text(found))
    if has_found(found):
        raise typer.Exit(EXIT_MISBEHAVED)
