"""npuviz run: a headless run that prints a summary."""

import json
from pathlib import Path
from typing import Annotated

import typer

from npuviz.cli import options


def command(
    model: Annotated[str, typer.Argument(help="Model file, or the name of a sample model.")],
    target: options.Target = "",
    preset: options.Preset = "",
    config: options.Config = None,
    settings: options.Settings = None,
    kernel: options.Kernel = "",
    shapes: options.Shape = None,
    grid: options.Grid = "",
    inputs: options.Inputs = None,
    seed: options.Seed = 0,
    record: options.Record = None,
    until: options.Until = None,
    breaks: options.Break = None,
    exports: options.Export = None,
    check: Annotated[
        bool,
        typer.Option("--check", help="Compare every tensor with ONNX Runtime, end to end and per operator."),
    ] = False,
    explain_error: Annotated[
        bool,
        typer.Option(
            "--explain-error",
            help="Check, measure which operators make the outputs wrong, and run with those in fp32.",
        ),
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Run a model headless and print a summary.

    Exit codes: 0 done, 1 a check failed, 2 bad usage or bad input, 3 the simulated chip misbehaved (a
    deadlock, a hang, a fault, a hazard of the level error), 130 interrupted.
    """
    from npuviz.cli.terminal import TerminalProgress, interruptible
    from npuviz.workbench.arguments import parse_exports
    from npuviz.workbench.choosing import find_file
    from npuviz.workbench.headless.run import RunOptions, run_model
    from npuviz.workbench.headless.summary_text import summary_text

    opening = options.open_options(
        target, preset, config, options.kernel_settings(settings, kernel, shapes, grid), inputs, seed, record
    )
    chosen = RunOptions(
        opening, until, tuple(breaks or ()), parse_exports(exports or ()), check, explain_error
    )
    path: Path = find_file(model, config)
    with TerminalProgress() as progress, interruptible() as interrupter:
        result = run_model(path, chosen, progress, lambda session: interrupter.use(session.interrupt))
    typer.echo(json.dumps(result.summary) if as_json else summary_text(result.summary))
    if result.exit_code:
        raise typer.Exit(result.exit_code)
