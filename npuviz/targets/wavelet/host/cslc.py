"""Stand in for the compiler command `cslc`: read its options and write a compiled folder."""

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from npuviz.base.errors import NpuvizError, UsageError
from npuviz.base.names import is_number
from npuviz.targets.wavelet.wafer import Wafer

ARCHITECTURES = ("wse2", "wse3")
DEFAULT_ARCHITECTURE = "wse2"
"""Architecture of the vendor's compiler if a command line names none."""
FP16_FORMATS = ("f16", "cb16", "bf16")
MOST_CHANNELS = 16
TRACEBACK_VARIABLE = "NPUVIZ_TRACEBACK"
LARGEST_FABRIC = 1 << 12
"""Most columns or rows of a fabric. Assumed: more than a full system (762 x 1172), harmless for memory."""
_FLAGS = ("--memcpy", "--verbose", "--warnings-as-errors", "--out-routes", "--no-debug")
_VALUES = (
    *("--arch", "--fabric-dims", "--fabric-offsets", "--params", "--colors", "-o", "--channels"),
    *("--width-west-buf", "--width-east-buf", "--import-path", "--max-inlined-iterations"),
    *("--fp16-format", "--link-section-start-address-bytes", "--max-parallelism"),
)
USAGE = (
    "cslc FILE.csl [--arch=wse2|wse3] --fabric-dims=W,H --fabric-offsets=X,Y [--params=N:V,..] "
    "[--colors=N:V,..] [-o DIR] [--memcpy --channels=N]"
)


@dataclass(frozen=True)
class CompileOptions:
    """The options of a command line of the compiler.

    fabric, offset  (columns, rows), (column, row); (0, 0) and (-1, -1) if not given
    """

    file: Path
    out: Path
    arch: str = DEFAULT_ARCHITECTURE
    fabric: tuple[int, int] = (0, 0)
    offset: tuple[int, int] = (-1, -1)
    params: dict[str, int] = field(default_factory=dict[str, int])
    colors: dict[str, int] = field(default_factory=dict[str, int])
    import_paths: tuple[Path, ...] = ()
    has_memcpy: bool = False
    is_verbose: bool = False
    warnings_are_errors: bool = False
    fp16: str = "f16"


def parse_arguments(arguments: Sequence[str]) -> CompileOptions:
    """Return the options of a command line. Raises UsageError."""
    given: dict[str, list[str]] = {}
    files: list[str] = []
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if not word.startswith("-") or word == "-":
            files.append(word)
            continue
        name, equals, value = word.partition("=")
        if f"-{name}" in (*_FLAGS, *_VALUES):  # -arch=wse3: the vendor's compiler takes one dash or two
            name = f"-{name}"
        if name in _FLAGS:
            given.setdefault(name, []).append(value)
        elif name in _VALUES:
            if not equals:
                if not rest:
                    raise UsageError(f"{name}: expected a value; {USAGE}")
                value = rest.pop(0)
            given.setdefault(name, []).append(value)
        else:
            raise UsageError(f"{name[:60]}: unknown option; {USAGE}")
    if len(files) != 1:
        raise UsageError(f"expected one file with a layout block, found {len(files)}; {USAGE}")
    return _options(Path(files[0]), given)


def _options(file: Path, given: dict[str, list[str]]) -> CompileOptions:
    def last(name: str, default: str) -> str:
        return given[name][-1] if name in given else default

    if "--channels" in given:
        channels = _number("--channels", last("--channels", "1"))
        if not 1 <= channels <= MOST_CHANNELS:
            raise UsageError(f"--channels {channels}: expected 1 to {MOST_CHANNELS}")
    for name in ("--width-west-buf", "--width-east-buf", "--max-inlined-iterations"):
        _number(name, last(name, "0"))
    folders = [*given.get("--import-path", []), *os.environ.get("CSL_IMPORT_PATH", "").split(os.pathsep)]
    return CompileOptions(
        file=file,
        out=Path(last("-o", "out")),
        arch=_choice("--arch", last("--arch", DEFAULT_ARCHITECTURE), ARCHITECTURES),
        fabric=_pair("--fabric-dims", last("--fabric-dims", "0,0")),
        offset=_pair("--fabric-offsets", given["--fabric-offsets"][-1])
        if "--fabric-offsets" in given
        else (-1, -1),
        params=_bindings("--params", given.get("--params", [])),
        colors=_bindings("--colors", given.get("--colors", [])),
        import_paths=tuple(Path(folder) for folder in folders if folder),
        has_memcpy="--memcpy" in given,
        is_verbose="--verbose" in given,
        warnings_are_errors="--warnings-as-errors" in given,
        fp16=_choice("--fp16-format", last("--fp16-format", "f16"), FP16_FORMATS),
    )


def _choice(name: str, value: str, choices: Sequence[str]) -> str:
    if value not in choices:
        raise UsageError(f"{name} {value[:60]!r}: expected {' or '.join(choices)}")
    return value


def _number(name: str, text: str) -> int:
    # A number with more digits is of no use here; int() of a megabyte of digits takes minutes.
    try:
        number = int(text, 0) if len(text) <= 20 else -1
    except ValueError:
        number = int(text) if is_number(text, 20) else -1
    if number < 0:
        raise UsageError(f"{name} {text[:60]!r}: expected a whole number >= 0")
    return number


def _pair(name: str, text: str) -> tuple[int, int]:
    parts = text.split(",")
    if len(parts) != 2:
        raise UsageError(f"{name} {text[:60]!r}: expected two numbers with a comma between them")
    first, second = _number(name, parts[0]), _number(name, parts[1])
    if max(first, second) > LARGEST_FABRIC:
        raise UsageError(f"{name} {text[:60]}: expected at most {LARGEST_FABRIC}")
    return first, second


def _bindings(name: str, texts: Sequence[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for text in texts:
        for part in text.split(","):
            if not part.strip():  # a comma at the end, or two
                continue
            key, colon, value = part.partition(":")
            if not colon or not key.strip():
                raise UsageError(f"{name} {part[:60]!r}: expected NAME:VALUE")
            found[key.strip()] = _number(f"{name} {key.strip()[:60]}", value.strip())
    return found


def compile_wafer(options: CompileOptions, say: Callable[[str], None] | None = None) -> Wafer:
    """Compile a program; `say` receives the lines of `@comptime_print`. Raises NpuvizError."""
    from npuviz.targets.wavelet.csl.compiler import compile_program

    return compile_program(
        options.file,
        options.arch,
        params=options.params,
        colors=options.colors,
        fabric=options.fabric,
        offset=options.offset if options.offset[0] >= 0 else (4, 1),
        import_paths=options.import_paths,
        fp16=options.fp16,
        say=say,
        reserved=_reserved(),
    )


def _reserved() -> int:
    """Return the bytes of a PE that the runtime library takes, as the environment says."""
    from npuviz.targets.wavelet.csl.lower.data_memory import PE_BYTES, RESERVED_VARIABLE, RUNTIME_BYTES

    number = _number(RESERVED_VARIABLE, os.environ.get(RESERVED_VARIABLE, str(RUNTIME_BYTES)))
    if number >= PE_BYTES:
        raise UsageError(f"{RESERVED_VARIABLE}={number}: a PE has {PE_BYTES} bytes")
    return number


def compile_to_folder(options: CompileOptions) -> str:
    """Compile a program and write its folder; return a sentence about it. Raises NpuvizError, OSError."""
    if not options.file.is_file():
        raise UsageError(f"{options.file}: no such file")
    from npuviz.targets.wavelet.load.compiled import save_wafer

    wafer = compile_wafer(options, print)
    if wafer.warnings and options.warnings_are_errors:
        raise UsageError(f"{wafer.warnings[0]} (--warnings-as-errors)")
    for warning in wafer.warnings:
        print(f"cslc: warning: {warning}", file=sys.stderr)
    save_wafer(options.out, wafer, options.colors)
    size = f"{wafer.columns} x {wafer.rows} PEs, {len(wafer.programs)} programs"
    return f"{options.file}: {size} for {wafer.arch} in {options.out}"


def run(arguments: Sequence[str]) -> int:
    """Run the command; return 0 if it succeeds, 2 for bad input, with one line on stderr."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE)
        return 0
    try:
        options = parse_arguments(arguments)
        text = compile_to_folder(options)
    except NpuvizError as error:
        print(f"cslc: error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"cslc: error: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2
    except Exception as error:
        if os.environ.get(TRACEBACK_VARIABLE):
            raise
        text = f"internal error: {type(error).__name__}: {str(error)[:300]}; this is a bug of npuviz"
        print(f"cslc: error: {text}, {TRACEBACK_VARIABLE}=1 shows where", file=sys.stderr)
        return 2
    if options.is_verbose:
        print(text)
    return 0


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
