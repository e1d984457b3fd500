"""The entry point `npuviz`: picks the subcommand, and turns every failure into one line and an exit code."""

import importlib
import os
import sys
from collections.abc import Sequence

from npuviz import __version__

# Two maths threads on two shared cores stall each other for tens of milliseconds; this has to be
# set before numpy is imported anywhere.
for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

SUBCOMMANDS = ("open", "run", "debug", "info", "targets", "export", "query", "shot", "bench")
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
EXIT_BUG = 70


def main(argv: Sequence[str] | None = None) -> int:
    """Run one subcommand and return the exit code: 0 done, 1 check failed, 2 bad input, 130 interrupted."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] in (["--version"], ["-V"]):
        print(f"npuviz {__version__}")
        return 0
    from npuviz.base.errors import Cancelled, NpuvizError

    try:
        code = _dispatch(arguments)
        sys.stdout.flush()
        return code
    except (KeyboardInterrupt, Cancelled):
        print("npuviz: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
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


def _dispatch(arguments: list[str]) -> int:
    import typer

    from npuviz.base.errors import UsageError

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
        app.command(name)(module.command)
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
    print(f"npuviz: error: {line}", file=sys.stderr)
    return EXIT_USAGE


def _os_error_text(error: OSError) -> str:
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{error.strerror or error}"


if __name__ == "__main__":
    sys.exit(main())
