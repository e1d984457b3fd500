"""Open a model or a trace from Python."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict, Unpack

import numpy as np

from npuviz.api.session import DebugSession
from npuviz.base.errors import UsageError
from npuviz.base.names import echo
from npuviz.workbench.choosing import find_file
from npuviz.workbench.opening import OpenOptions, open_file


class OpenArguments(TypedDict, total=False):
    """Arguments of `npuviz.open` besides the file; all are optional.

    target, preset, config  as `--target`, `--preset` and `--config`
    settings  keys of the machine or symbolic dimensions, as `--set`: {"batch": 1, "cores": 2}
    inputs    input tensor -> array; missing ones are drawn from `seed`
    record    folder of a trace bundle to write, finished by `DebugSession.publish`
    is_recording  False records nothing: no trace, no `why` and `who` of the past
    kernel, shapes, grid    for NKI kernels; shapes  {"a": "128x512:bfloat16"} or {"a": (128, 512)}
    """

    target: str
    preset: str
    config: str | Path
    settings: Mapping[str, Any]
    inputs: Mapping[str, np.ndarray]
    seed: int
    record: str | Path
    is_recording: bool
    kernel: str
    shapes: Mapping[str, str | Sequence[int]]
    grid: str | int


def open_session(path: str | Path, **arguments: Unpack[OpenArguments]) -> DebugSession:
    """Open a model, a program or a trace bundle; a model is at cycle 0.

    path  a file, a folder that is a program, or the name of a sample ("tiny_cnn.onnx"). The user's programs
          (NKI kernels, scripts of CSL programs) are run, as `npuviz run` does.
    Raises NpuvizError (bad input, one line), OSError from reading, TypeError for an unknown argument.
    """
    return DebugSession(open_file(*chosen_file(path, arguments, "open")))


def chosen_file(path: str | Path, arguments: OpenArguments, function: str) -> tuple[Path, OpenOptions]:
    """Return the file and the options that the arguments of a function of `npuviz` stand for.
    Raises as `open_session`."""
    unknown = set(arguments) - set(OpenArguments.__annotations__)
    if unknown:
        known = ", ".join(OpenArguments.__annotations__)
        raise TypeError(f"npuviz.{function}() has no argument {sorted(unknown)[0]!r}; known: {known}")
    config = Path(arguments["config"]) if "config" in arguments else None
    if config is not None and not config.is_file():
        raise UsageError(f"config {config}: no such file")
    return find_file(str(path), config), _options(arguments, config)


def _options(arguments: OpenArguments, config: Path | None) -> OpenOptions:
    settings = {name: setting_text(value) for name, value in arguments.get("settings", {}).items()}
    if "kernel" in arguments:
        settings["kernel"] = arguments["kernel"]
    if "grid" in arguments:
        settings["grid"] = str(arguments["grid"])
    for name, shape in arguments.get("shapes", {}).items():
        settings[f"shape.{name}"] = shape if isinstance(shape, str) else "x".join(map(str, shape))
    seed = arguments.get("seed", 0)
    if seed < 0:
        raise UsageError(f"seed {seed}: expected 0 or more")
    record = arguments.get("record")
    return OpenOptions(
        target=arguments.get("target", ""),
        preset=arguments.get("preset", ""),
        config=config,
        settings=settings,
        inputs={name: np.asarray(value) for name, value in arguments.get("inputs", {}).items()},
        seed=seed,
        record=Path(record) if record is not None else None,
        is_recording=arguments.get("is_recording", True),
    )


def setting_text(value: Any) -> str:
    """Return a setting as `--set` writes it: true, 3, 1.5, a,b.
    Raises UsageError for a value that it cannot write."""
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, str | int | float | np.integer | np.floating | Path):
        return str(value)
    if isinstance(value, Sequence):
        return ",".join(setting_text(item) for item in value)
    raise UsageError(f"setting {echo(repr(value))}: expected a text, a number, true, false or a list of them")
