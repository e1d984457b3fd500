"""Options that several subcommands share, and what they mean together."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from npuviz.workbench.opening import OpenOptions

Target = Annotated[str, typer.Option("--target", metavar="ID", help="Target; default: by file.")]
Preset = Annotated[str, typer.Option("--preset", metavar="NAME", help="Preset of the target.")]
Config = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="The target's hardware description.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Key of the spec, or a symbolic dimension. Repeatable."),
]
Inputs = Annotated[
    list[str] | None,
    typer.Option("--input", metavar="NAME=FILE.npy", help="Values of an input tensor. Repeatable."),
]
Seed = Annotated[int, typer.Option("--seed", metavar="N", min=0, help="Seed of inputs that are not given.")]
Record = Annotated[
    str | None,
    typer.Option("--record", metavar="DIR|none", help="Write a trace bundle; none: record nothing."),
]
Until = Annotated[int | None, typer.Option("--until", metavar="CYCLE", min=0, help="Stop at this cycle.")]
Break = Annotated[
    list[str] | None, typer.Option("--break", metavar="CONDITION", help="Stop there. Repeatable.")
]
Export = Annotated[
    list[str] | None,
    typer.Option("--export", metavar="FORMAT:FILE", help="Export the trace at the end. Repeatable."),
]
Kernel = Annotated[str, typer.Option("--kernel", metavar="NAME", help="Which kernel of a Python file.")]
Shape = Annotated[
    list[str] | None,
    typer.Option("--shape", metavar="NAME=128x512:TYPE", help="Shape of a kernel's tensor. Repeatable."),
]
Grid = Annotated[str, typer.Option("--grid", metavar="N", help="Instances of a kernel, as 2 or 4x2.")]
Reference = Annotated[
    str,
    typer.Option(
        "--reference",
        metavar="MODULE:FUNCTION",
        help="What a kernel should compute, for --check: a function.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]


def kernel_settings(
    settings: list[str] | None,
    kernel: str = "",
    shapes: list[str] | None = None,
    grid: str = "",
    reference: str = "",
) -> list[str]:
    """The `--set` pairs with those that say which kernel of a file is run, and on what."""
    from npuviz.base.errors import UsageError

    found = list(settings or ())
    if kernel:
        found.append(f"kernel={kernel}")
    if grid:
        found.append(f"grid={grid}")
    if reference:
        found.append(f"reference={reference}")
    for shape in shapes or ():
        if "=" not in shape:
            raise UsageError(f"--shape {shape[:80]}: expected NAME=SIZES, as a=128x512:bfloat16")
        found.append(f"shape.{shape}")
    return found


def open_options(
    target: str,
    preset: str,
    config: Path | None,
    settings: list[str] | None,
    inputs: list[str] | None = None,
    seed: int = 0,
    record: str | None = None,
) -> "OpenOptions":
    """The options of opening a file from the texts of the command line. Raises UsageError, FormatError."""
    from npuviz.base.errors import UsageError
    from npuviz.workbench.arguments import parse_inputs, parse_record, parse_settings
    from npuviz.workbench.opening import OpenOptions

    if config is not None and not config.is_file():
        raise UsageError(
            f"--config {config}: {'a folder, not a file' if config.is_dir() else 'no such file'}"
        )
    folder, is_recording = parse_record(record)
    return OpenOptions(
        target=target,
        preset=preset,
        config=config,
        settings=parse_settings(settings or ()),
        inputs=parse_inputs(inputs or ()),
        seed=seed,
        record=folder,
        is_recording=is_recording,
    )
