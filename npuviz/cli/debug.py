"""npuviz debug: the text debugger."""

import importlib
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from npuviz.cli.kit import options

if TYPE_CHECKING:
    from npuviz.debug.console.debugger import TextDebugger

PROMPT = "(npuviz) "


def command(
    *,
    model: Annotated[str, typer.Argument(help="Model file, or the name of a sample model.")],
    given: options.SessionOptions,
    script: Annotated[
        Path | None, typer.Option("--script", metavar="FILE", help="Commands, one a line.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
) -> None:
    """Debug a model with commands: break, run, step, back, goto, print, mem, why, help, ...

    Exit codes of a script, or of commands from a pipe: 0 done, 2 a command failed (the others ran all the
    same), 3 the simulated chip misbehaved: a deadlock, a hang, a fault or a hazard of the level error.
    """
    from npuviz.cli.kit.terminal import TerminalProgress
    from npuviz.debug.console.debugger import TextDebugger
    from npuviz.workbench.choosing import find_file
    from npuviz.workbench.opening import open_file

    lines = _read_script(script) if script is not None else None
    opening = given.opening()
    with TerminalProgress() as progress:
        opened = open_file(find_file(model, given.config), opening, progress)
    try:
        if opened.session is None:
            raise _usage(f"{model}: a trace has no machine to debug; open it with npuviz, or give its model")
        debugger = TextDebugger(opened.session, sys.stdout, as_json)
        for text in given.breaks or ():
            opened.session.breakpoints.add(text)
        if given.until is not None:
            _execute(debugger, f"run {given.until}")
        is_typed = lines is None and sys.stdin.isatty()
        _converse(debugger, lines)
        code = 0 if is_typed else _exit_code(debugger, str(script or "standard input"))
        opened.publish()
    finally:
        opened.close()
    if code:
        raise typer.Exit(code)


def _exit_code(debugger: "TextDebugger", name: str) -> int:
    """Return the exit code of a script, and print the reason on stderr if it is no success."""
    from npuviz.workbench.headless.exit_codes import (
        EXIT_INTERRUPTED,
        EXIT_MISBEHAVED,
        EXIT_USAGE,
        exit_of,
    )
    from npuviz.workbench.headless.run import findings_at, run_hazards

    session = debugger.session
    stop = debugger.misbehaved or session.stop
    hazards = run_hazards(stop, findings_at(session, stop))
    code, reason = exit_of(stop, None, hazards, session.program.notes)
    if code == EXIT_INTERRUPTED:  # another tool interrupted the machine, and the script went on
        code, reason = 0, ""
    if reason:
        what = "the simulated chip misbehaved" if code == EXIT_MISBEHAVED else "failed"
        typer.echo(f"npuviz: {name}: {what}: {reason}", err=True)
    if debugger.errors:
        more = f" and {len(debugger.errors) - 1} more" if len(debugger.errors) > 1 else ""
        typer.echo(f"npuviz: error: {name}: a command failed: {debugger.errors[0]}{more}", err=True)
    return code or (EXIT_USAGE if debugger.errors else 0)


def _read_script(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise _usage(f"--script {path}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise _usage(f"--script {path}: expected UTF-8 text, byte {error.start} is not") from None


def _usage(text: str) -> Exception:
    from npuviz.base.errors import UsageError

    return UsageError(text)


def _converse(debugger: "TextDebugger", lines: list[str] | None) -> None:
    """Execute the lines of a script, or typed lines, until `quit` or the end; Ctrl+C also ends a script."""
    from npuviz.sim.stop import StopKind

    if lines is not None:
        for line in lines:
            if not _execute(debugger, line):
                return
            if debugger.session.stop.kind is StopKind.INTERRUPTED:
                raise KeyboardInterrupt
        return
    is_terminal = sys.stdin.isatty()
    if is_terminal:
        with suppress(ImportError):  # editing and history of the line being typed
            importlib.import_module("readline")
    while True:
        try:
            line = input(PROMPT) if is_terminal else sys.stdin.readline()
        except EOFError:
            return
        if not is_terminal and not line:
            return
        if not _execute(debugger, line):
            return


def _execute(debugger: "TextDebugger", line: str) -> bool:
    """Execute one command, in which Ctrl+C stops the machine. Returns False for the command that ends the
    debugger."""
    from npuviz.cli.kit.terminal import TerminalProgress, interruptible

    with interruptible() as interrupter, TerminalProgress() as progress:
        interrupter.use(debugger.session.interrupt)
        debugger.session.progress = progress
        return debugger.execute(line)
