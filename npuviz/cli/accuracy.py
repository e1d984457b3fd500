"""npuviz accuracy: how far every tensor of a run is from the reference."""

import json
from typing import Annotated

import typer

from npuviz.cli.kit import options


def command(
    *,
    model: Annotated[str, typer.Argument(help="Model file, kernel file, or name of a sample model.")],
    given: options.CheckedOptions,
    what_if: Annotated[
        list[str] | None,
        typer.Option(
            "--what-if",
            metavar="TYPE",
            help="Put each tensor alone into this type, and see what the outputs become: float16, bfloat16, "
            "float8_e4m3fn, float8_e5m2, int8 or int4 (steps of one scale per tensor). Repeatable.",
        ),
    ] = None,
    tensors: Annotated[
        list[str] | None,
        typer.Option("--tensor", metavar="NAME", help="For --what-if: this tensor only. Repeatable."),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Run a model, compare every tensor with ONNX Runtime, and show its errors along the depth of the model.

    Each tensor is compared end to end (from the model's inputs) and per operator (on what the machine itself
    had before it): largest error, SQNR, cosine, and a histogram. Exit code 1 where the check fails.
    """
    from npuviz.base.errors import UsageError
    from npuviz.cli.kit.terminal import TerminalProgress, interruptible
    from npuviz.onnx.check.rounding import check_types
    from npuviz.workbench.accuracy.report import Wanted, measure_accuracy
    from npuviz.workbench.accuracy.text import accuracy_text
    from npuviz.workbench.choosing import find_file

    check_types(what_if or ())
    if tensors and not what_if:
        raise UsageError("--tensor belongs to --what-if TYPE: which type is to be tried")
    wanted = Wanted(tuple(what_if or ()), tuple(tensors or ()))
    with TerminalProgress() as progress, interruptible() as interrupter:
        found = measure_accuracy(
            find_file(model, given.config), given.opening("none"), wanted, progress,
            lambda session: interrupter.use(session.interrupt),
        )  # fmt: skip
    typer.echo(json.dumps(found) if as_json else accuracy_text(found))
    if found["exit"]["code"]:
        raise typer.Exit(found["exit"]["code"])
