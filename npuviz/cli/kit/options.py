"""Groups of options that several subcommands share, and their conversion to OpenOptions."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, is_dataclass, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

if TYPE_CHECKING:
    from npuviz.workbench.opening import OpenOptions

Export = Annotated[
    list[str] | None,
    typer.Option("--export", metavar="FORMAT:FILE", help="Export the trace at the end. Repeatable."),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]


@dataclass(frozen=True, kw_only=True)
class MachineOptions:
    """Options that choose and configure the machine for a file."""

    target: Annotated[str, typer.Option("--target", metavar="ID", help="Target; default: by file.")] = ""
    preset: Annotated[str, typer.Option("--preset", metavar="NAME", help="Preset of the target.")] = ""
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="The target's hardware description.")
    ] = None
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Key of the spec, or a symbolic dimension. Repeatable."
        ),
    ] = None

    def pairs(self) -> list[str]:
        """Return the `--set` pairs, and the pairs of options that are short forms of one. Raises
        UsageError."""
        return list(self.settings or ())

    def opening(self, record: str | None = None) -> "OpenOptions":
        """Return the options to open a file with. Raises UsageError, FormatError.

        record  value of --record, None if it was not given
        """
        from npuviz.base.errors import UsageError
        from npuviz.workbench.arguments import parse_record, parse_settings
        from npuviz.workbench.opening import OpenOptions

        if self.config is not None and not self.config.is_file():
            what = "a folder, not a file" if self.config.is_dir() else "no such file"
            raise UsageError(f"--config {self.config}: {what}")
        folder, is_recording = parse_record(record)
        return OpenOptions(
            target=self.target,
            preset=self.preset,
            config=self.config,
            settings=parse_settings(self.pairs()),
            record=folder,
            is_recording=is_recording,
        )


@dataclass(frozen=True, kw_only=True)
class KernelOptions(MachineOptions):
    """Options of the machine, and those that choose a kernel of a Python file."""

    kernel: Annotated[
        str, typer.Option("--kernel", metavar="NAME", help="Which kernel of a Python file.")
    ] = ""
    shapes: Annotated[
        list[str] | None,
        typer.Option("--shape", metavar="NAME=128x512:TYPE", help="Shape of a kernel's tensor. Repeatable."),
    ] = None
    grid: Annotated[str, typer.Option("--grid", metavar="N", help="Instances of a kernel, as 2 or 4x2.")] = ""

    def pairs(self) -> list[str]:
        """Return the `--set` pairs, with pairs that choose a kernel and the shapes of its tensors. Raises
        UsageError."""
        from npuviz.base.errors import UsageError

        for shape in self.shapes or ():
            if "=" not in shape:
                raise UsageError(f"--shape {shape[:80]}: expected NAME=SIZES, as a=128x512:bfloat16")
        chosen = {"kernel": self.kernel, "grid": self.grid}
        return [
            *super().pairs(),
            *(f"{key}={value}" for key, value in chosen.items() if value),
            *(f"shape.{shape}" for shape in self.shapes or ()),
        ]


@dataclass(frozen=True, kw_only=True)
class ProgramOptions(KernelOptions):
    """Options of machine and kernel, and values of the inputs."""

    inputs: Annotated[
        list[str] | None,
        typer.Option("--input", metavar="NAME=FILE.npy", help="Values of an input tensor. Repeatable."),
    ] = None
    seed: Annotated[
        int, typer.Option("--seed", metavar="N", min=0, help="Seed of inputs that are not given.")
    ] = 0

    def opening(self, record: str | None = None) -> "OpenOptions":
        """Return the options to open a file with, inputs included. Raises UsageError, FormatError."""
        from npuviz.workbench.arguments import parse_inputs

        return replace(super().opening(record), inputs=parse_inputs(self.inputs or ()), seed=self.seed)


@dataclass(frozen=True, kw_only=True)
class CheckedOptions(ProgramOptions):
    """Options of a program, and the reference for its values."""

    reference: Annotated[
        str,
        typer.Option(
            "--reference",
            metavar="MODULE:FUNCTION",
            help="What a kernel should compute, for --check: a function.",
        ),
    ] = ""

    def pairs(self) -> list[str]:
        """Return the `--set` pairs, with one for the reference. Raises UsageError."""
        return [*super().pairs(), *([f"reference={self.reference}"] if self.reference else ())]


@dataclass(frozen=True, kw_only=True)
class SessionOptions(CheckedOptions):
    """Options of a program, its recording, and where it stops."""

    record: Annotated[
        str | None,
        typer.Option("--record", metavar="DIR|none", help="Write a trace bundle; none: record nothing."),
    ] = None
    until: Annotated[
        int | None, typer.Option("--until", metavar="CYCLE", min=0, help="Stop at this cycle.")
    ] = None
    breaks: Annotated[
        list[str] | None, typer.Option("--break", metavar="CONDITION", help="Stop there. Repeatable.")
    ] = None

    def opening(self, record: str | None = None) -> "OpenOptions":
        """Return the options to open a file with; `record` replaces --record. Raises UsageError,
        FormatError."""
        return super().opening(self.record if record is None else record)


def with_option_groups(command: Callable[..., int | None]) -> Callable[..., int | None]:
    """Return `command` with each group of options (a parameter whose type is a dataclass) replaced by its
    fields.

    typer reads a function's options from its signature and knows no groups.
    """
    hints = get_type_hints(command, include_extras=True)
    groups = {name: hint for name, hint in hints.items() if isinstance(hint, type) and is_dataclass(hint)}
    options: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        if name not in groups:
            options.append(parameter.replace(kind=parameter.KEYWORD_ONLY))
            continue
        for field, kind in get_type_hints(groups[name], include_extras=True).items():
            default = getattr(groups[name], field)
            options.append(inspect.Parameter(field, parameter.KEYWORD_ONLY, default=default, annotation=kind))

    @wraps(command)
    def called(**values: Any) -> int | None:
        made = {
            name: group(**{field: values.pop(field) for field in get_type_hints(group)})
            for name, group in groups.items()
        }
        return command(**values, **made)

    vars(called)["__signature__"] = inspect.Signature(options)
    called.__annotations__ = {option.name: option.annotation for option in options}
    return called
