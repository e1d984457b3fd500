"""npuviz compare: two runs side by side."""

import json
from typing import Annotated

import typer

from npuviz.cli.kit import options


def command(
    *,
    a: Annotated[str, typer.Argument(metavar="A", help="Trace bundle, model, kernel file or sample.")],
    b: Annotated[
        str, typer.Argument(metavar="B", help="The same; `-` is A once more, with the options of B.")
    ],
    given: options.KernelOptions,
    target_b: Annotated[str, typer.Option("--target-b", metavar="ID", help="Target of B.")] = "",
    preset_b: Annotated[str, typer.Option("--preset-b", metavar="NAME", help="Preset of B.")] = "",
    kernel_b: Annotated[str, typer.Option("--kernel-b", metavar="NAME", help="Kernel of B.")] = "",
    settings_b: Annotated[
        list[str] | None,
        typer.Option("--set-b", metavar="KEY=VALUE", help="Setting of B, on top of --set. Repeatable."),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Say where two runs first differ, and what was won and lost by cause, operator, source line and unit.

    Bundles are read, models and kernels are run. B has the options of A where it has none of its own.
    """
    from dataclasses import replace
    from pathlib import Path

    from npuviz.cli.kit.terminal import TerminalProgress, interruptible
    from npuviz.workbench.choosing import find_file
    from npuviz.workbench.comparing.comparison import compare_runs, comparison_lines, opened_run
    from npuviz.workbench.opening import is_bundle

    of_b = replace(
        given,
        target=target_b or given.target,
        # With its own target, B must not get the preset of A, which may belong to another machine.
        preset=preset_b or ("" if target_b else given.preset),
        kernel=kernel_b or given.kernel,
        settings=[*(given.settings or ()), *(settings_b or ())],
    )
    openings = ((a, given.opening()), (a if b == "-" else b, of_b.opening()))
    with TerminalProgress() as progress, interruptible() as interrupter:
        runs = [
            opened_run(
                Path(name) if is_bundle(Path(name)) else find_file(name, given.config), opening, progress,
                lambda session: interrupter.use(session.interrupt),
            )
            for name, opening in openings
        ]  # fmt: skip
        found = compare_runs(*runs)
    typer.echo(json.dumps(found) if as_json else "\n".join(comparison_lines(found)))
