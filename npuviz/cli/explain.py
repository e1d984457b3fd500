"""npuviz explain: why a run takes as long as it does."""

import json
from typing import Annotated

import typer

from npuviz.cli.kit import options


def command(
    *,
    model: Annotated[str, typer.Argument(help="Model file, name of a sample model, or trace bundle.")],
    given: options.KernelOptions,
    verify: Annotated[
        bool,
        typer.Option("--verify/--no-verify", help="Run again with each remedy, to see what it gains."),
    ] = True,
    what_if: Annotated[
        list[str] | None,
        typer.Option(
            "--what-if",
            metavar="TEXT",
            help="Predict another change: 'unit=PE speed=2', 'cause=\"start of a DMA\" speed=inf', "
            "'operator=conv1 speed=1.5'; or settings, which are run: 'dma_start_ns=650'. Repeatable.",
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Run a model, or read a bundle, and say what its critical path consists of and what would help.

    The critical path is as long as the run. Gains are predicted from recorded causes.
    """
    from pathlib import Path

    from npuviz.cli.kit.terminal import TerminalProgress, interruptible
    from npuviz.workbench.causes.explanation import explain_run, explanation_text
    from npuviz.workbench.choosing import find_file
    from npuviz.workbench.opening import is_bundle

    path = Path(model)
    if not is_bundle(path):
        path = find_file(model, given.config)
    with TerminalProgress() as progress, interruptible() as interrupter:
        found = explain_run(
            path, given.opening(), (verify, tuple(what_if or ())), progress,
            lambda session: interrupter.use(session.interrupt),
        )  # fmt: skip
    typer.echo(json.dumps(found) if as_json else explanation_text(found))
