"""The entry point `npuviz`: picks the subcommand, and turns every failure into one line and an exit code."""

import importlib
import os
import sys
import threading
from collections.abc import Sequence

from npuviz import __version__
from npuviz.base.interrupts import ENDLESS_THREAD, Interrupts

# Two maths threads on two shared cores stall each other for tens of milliseconds; this has to be
# set before numpy is imported anywhere.
for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

SUBCOMMANDS = (
    "open",
    "run",
    "debug",
    "info",
    "targets",
    "compile",
    "map",
    "export",
    "query",
    "explain",
    "compare",
    "accuracy",
    "races",
    "sweep",
    "shot",
    "bench",
    "neff",
    "csl",
    "nki",
    "mcp",
    "dap",
)
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
LONGEST_LINE = 1000
"""Most characters of an error; longer lines are cut in the middle."""
TRACEBACK_VARIABLE = "NPUVIZ_TRACEBACK"
"""Set it to see the traceback of a bug on the terminal."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one subcommand and return the exit code: 0 done, 1 check failed, 2 bad input, 3 the simulated chip
    misbehaved, 130 interrupted.

    argv  arguments; None: those of the process, which must end afterwards, as Ctrl+C then has no effect any
    more
    """
    interrupts = None
    try:
        # Inside, because Ctrl+C may come as early as this.
        interrupts = Interrupts()
        interrupts.begin()
        code = _main(list(sys.argv[1:] if argv is None else argv), interrupts)
    except KeyboardInterrupt:
        code = EXIT_INTERRUPTED
    finally:
        if interrupts is not None:
            interrupts.end(is_ignored_after=argv is None)
    if code == EXIT_INTERRUPTED:
        print("npuviz: interrupted", file=sys.stderr)
    if argv is None and any(thread.name == ENDLESS_THREAD for thread in threading.enumerate()):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code


def _main(arguments: list[str], interrupts: Interrupts) -> int:
    if arguments[:1] in (["--version"], ["-V"]):
        print(f"npuviz {__version__}")
        return 0
    from npuviz.base.errors import Cancelled, NpuvizError

    try:
        try:
            code = _dispatch(arguments)
            sys.stdout.flush()
        except BaseException:
            if interrupts.is_asked:
                raise KeyboardInterrupt from None
            raise
    except Cancelled:
        return EXIT_INTERRUPTED
    except SystemExit:
        # Only typer does this, when the reader of a pipe went away; it has silenced stdout.
        return 0
    except NpuvizError as error:
        return _fail(str(error))
    except BrokenPipeError:
        # The reader of a pipe went away; nothing may be written on it at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except MemoryError:
        return _fail("out of memory; a smaller model, or --record none, needs less")
    except OSError as error:
        return _fail(_os_error_text(error))
    except Exception as error:
        if os.environ.get(TRACEBACK_VARIABLE):
            raise
        return _fail(_bug_text(error))
    return code


def _dispatch(arguments: list[str]) -> int:
    import typer

    from npuviz.base.errors import UsageError
    from npuviz.cli.kit.options import with_option_groups

    if arguments[:1] in (["--help"], ["-h"]):
        chosen: Sequence[str] = SUBCOMMANDS
    elif arguments and arguments[0] in SUBCOMMANDS:
        chosen = (arguments.pop(0),)
    else:
        chosen = ("open",)
    app = typer.Typer(
        name="npuviz",
        help="A visual, cycle-level debugger for neural processing units.",
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    for name in chosen:
        module = importlib.import_module(f"npuviz.cli.{name}")
        settings = getattr(module, "CONTEXT_SETTINGS", None)
        app.command(name, context_settings=settings)(with_option_groups(module.command))
    single = len(chosen) == 1
    usage_error = typer.BadParameter.__bases__[0].__bases__[0]
    try:
        result = app(
            arguments, prog_name=f"npuviz {chosen[0]}" if single else "npuviz", standalone_mode=False
        )
    except typer.Abort:
        raise KeyboardInterrupt from None
    except Exception as error:
        if isinstance(error, usage_error):
            text = error.format_message()  # pyright: ignore[reportAttributeAccessIssue]
            raise UsageError(f"{text.rstrip('.')}; see npuviz {chosen[0]} --help") from None
        raise
    return result if isinstance(result, int) else 0


def _fail(text: str) -> int:
    line = " ".join(text.split())
    if len(line) > LONGEST_LINE:
        line = f"{line[: LONGEST_LINE // 2]} ... {line[-LONGEST_LINE // 2 :]}"
    print(f"npuviz: error: {line}", file=sys.stderr)
    return EXIT_USAGE


def _os_error_text(error: OSError) -> str:
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{error.strerror or error}"


def _bug_text(error: Exception) -> str:
    """Write a report file about a bug of npuviz, and return the line to print."""
    from npuviz.workbench.crash_report import write_report

    report = write_report(error, sys.argv)
    where = f"a report is in {report}" if report else f"set {TRACEBACK_VARIABLE}=1 to see where"
    return f"internal error: {type(error).__name__}: {error}; this is a bug of npuviz, {where}"


if __name__ == "__main__":
    sys.exit(main())
