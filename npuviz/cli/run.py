"""npuviz run: a headless run that prints a summary."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from npuviz.cli.kit import options

if TYPE_CHECKING:
    from npuviz.workbench.headless.run import RunOptions


Assertions = Annotated[
    list[str] | None,
    typer.Option(
        "--assert",
        metavar="CONDITION",
        help="Must hold all the time, or, after the word finally, in the end. Repeatable.",
    ),
]
Check = Annotated[
    bool,
    typer.Option(
        "--check",
        help="Compare with ONNX Runtime, or a kernel with its --reference, and say what went wrong.",
    ),
]
Findings = Annotated[
    bool,
    typer.Option(
        "--findings/--no-findings",
        help="At the end, look for reads and writes that nothing orders and for wrong values.",
    ),
]
ExplainError = Annotated[
    bool,
    typer.Option(
        "--explain-error",
        help="Check, measure which operators make the outputs wrong, and run with those in fp32.",
    ),
]
ExplainSeconds = Annotated[
    float,
    typer.Option(
        "--explain-seconds",
        metavar="N",
        min=1.0,
        help="Seconds of the processor for --explain-error; what is left out is counted.",
    ),
]
Decode = Annotated[
    int,
    typer.Option("--decode", metavar="N", min=0, help="Run a language model for so many new tokens."),
]
Prompt = Annotated[
    Path | None,
    typer.Option("--prompt", metavar="IDS.npy", help="Token numbers that --decode begins with."),
]


def command(
    *,
    model: Annotated[str, typer.Argument(help="Model file, or the name of a sample model.")],
    given: options.SessionOptions,
    exports: options.Export = None,
    assertions: Assertions = None,
    check: Check = False,
    findings: Findings = True,
    explain_error: ExplainError = False,
    explain_seconds: ExplainSeconds = 60.0,
    decode: Decode = 0,
    prompt: Prompt = None,
    as_json: options.Json = False,
) -> None:
    """Run a model headless and print a summary.

    Exit codes: 0 done, 1 a check failed or an assertion did not hold, 2 bad usage or bad input, 3 the
    simulated chip misbehaved (a deadlock, a hang, a fault, a hazard of the level error), 130 interrupted.
    """
    from npuviz.cli.kit.terminal import TerminalProgress, interruptible
    from npuviz.workbench.arguments import parse_exports
    from npuviz.workbench.choosing import find_file
    from npuviz.workbench.headless.run import RunOptions, run_model
    from npuviz.workbench.headless.summary_text import summary_text

    chosen = RunOptions(
        given.opening(),
        given.until,
        tuple(given.breaks or ()),
        parse_exports(exports or ()),
        check,
        explain_error,
        tuple(assertions or ()),
        findings,
        explain_seconds,
    )
    path: Path = find_file(model, given.config)
    if decode or prompt is not None:
        _decode(path, chosen, decode, prompt, as_json)
        return
    with TerminalProgress() as progress, interruptible() as interrupter:
        result = run_model(path, chosen, progress, lambda session: interrupter.use(session.interrupt))
    typer.echo(json.dumps(result.summary) if as_json else summary_text(result.summary))
    if result.exit_code:
        raise typer.Exit(result.exit_code)


def _decode(path: Path, chosen: "RunOptions", count: int, prompt: Path | None, as_json: bool) -> None:
    """Run a language model token by token, and print the tokens and the cost of each phase."""
    from npuviz.base.errors import UsageError
    from npuviz.cli.kit.terminal import TerminalProgress, interruptible
    from npuviz.workbench.arguments import read_array
    from npuviz.workbench.language.report import decode, decode_text

    if prompt is None or not count:
        raise UsageError("--decode N and --prompt IDS.npy belong together: how many tokens, and after which")
    if chosen.until is not None or chosen.conditions or chosen.exports or chosen.open.record:
        raise UsageError("--decode: goes without --until, --break, --export and --record")
    values = read_array(prompt)
    with TerminalProgress() as progress, interruptible() as interrupter:
        summary = decode(
            path,
            chosen.open,
            values,
            count,
            progress,
            lambda session: interrupter.use(session.interrupt),
            chosen.is_checked,
        )
    typer.echo(json.dumps(summary) if as_json else decode_text(summary))
    if summary["exit"]["code"]:
        raise typer.Exit(summary["exit"]["code"])
