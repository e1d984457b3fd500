"""Reads sweep plans: a TOML file becomes a list of runs.

name = "array size"

[base]                       # what all runs have in common
model = "tiny_cnn.onnx"      # also: target, preset, config, seed, until
[base.set]                   # pairs of --set
mode = "true"

[axes]                       # every combination is a run; names of [base], each with a list
model = ["tiny_cnn.onnx", "tiny_transformer.onnx"]
[axes.set]
cores = [1, 2, 4]
"core_width, core_height" = [8, 16]   # keys that take the same value together

[metrics]                    # columns taken from a run's summary (`npuviz run --json`)
cycles = "cycles"
busy = "mean units.*.EX.utilization"

[derived]                    # columns computed from axes and metrics
multipliers = "cores * core_width * core_height"

[objectives]
cycles = "min"
multipliers = "min"
"""

import hashlib
import json
import math
import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

from npuviz import __version__
from npuviz.base.errors import FormatError, NpuvizError, UsageError
from npuviz.workbench.choosing import find_file
from npuviz.workbench.sweep.values import check_expression, check_path

MAX_RUNS = 100_000
MAX_BYTES = 1 << 20

Scalar = str | int | float

_BASE_NAMES = ("model", "target", "preset", "config", "seed", "until")
_SECTIONS = ("name", "base", "axes", "metrics", "derived", "objectives")


@dataclass(frozen=True, slots=True)
class SweepRun:
    """One run, as arguments of `npuviz run`. Paths are absolute; "" and None stand for absent."""

    model: str
    target: str = ""
    preset: str = ""
    config: str = ""
    settings: tuple[tuple[str, str], ...] = ()
    seed: int = 0
    until: int | None = None


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis of the sweep: a name of [base], or keys of --set joined by ", "."""

    name: str
    values: tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class SweepPlan:
    """A plan.

    runs     every combination; points[i] are the values of the axes in run i
    metrics  column -> path in a run's summary; derived  column -> expression
    objectives  column -> "min" or "max"
    text     the file as it was read
    """

    name: str
    axes: tuple[Axis, ...]
    runs: tuple[SweepRun, ...]
    points: tuple[tuple[Scalar, ...], ...]
    metrics: Mapping[str, str]
    derived: Mapping[str, str]
    objectives: Mapping[str, str]
    text: str


def read_plan(path: Path) -> SweepPlan:
    """Read a plan. Raises FormatError, or UsageError for files that do not exist."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise FormatError(path, expected=f"a plan of at most {MAX_BYTES} bytes", found="more")
        text = data.decode("utf-8")
        content = tomllib.loads(text)
    except OSError as error:
        raise FormatError(
            path, expected="a sweep plan", found=f"no readable file ({error.strerror})"
        ) from None
    except (ValueError, RecursionError) as error:
        raise FormatError(path, expected="TOML", found=" ".join(str(error).split())[:120]) from None
    return _Reader(path).plan(content, text)


class _Reader:
    """Converts the tables of a plan to runs. Raises FormatError that names the wrong field."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._found: dict[str, str] = {}

    def plan(self, content: Mapping[str, Any], text: str) -> SweepPlan:
        for name in content:
            if name not in _SECTIONS:
                raise self._error(name, f"one of {', '.join(_SECTIONS)}", "an unknown name")
        base = self._table(content, "base", (*_BASE_NAMES, "set"))
        axes = self._axes(self._table(content, "axes", (*_BASE_NAMES, "set")))
        names = {axis.name for axis in axes}
        if "model" not in base and "model" not in names:
            raise self._error("base.model", "a model, here or in [axes]", "none")
        count = math.prod(len(axis.values) for axis in axes)
        if count > MAX_RUNS:
            raise self._error("axes", f"at most {MAX_RUNS} runs", f"{count} combinations")
        points = tuple(product(*(axis.values for axis in axes)))
        runs = tuple(self._run(base, axes, point) for point in points)
        metrics, derived, objectives = self._columns(content, axes)
        name = content.get("name", self._path.stem)
        if not isinstance(name, str):
            raise self._error("name", "text", repr(name)[:40])
        return SweepPlan(name, axes, runs, points, metrics, derived, objectives, text)

    def _table(self, content: Mapping[str, Any], name: str, known: Sequence[str]) -> dict[str, Any]:
        table = content.get(name, {})
        if not isinstance(table, dict):
            raise self._error(name, "a table", repr(table)[:40])
        for key in table:
            if key not in known:
                raise self._error(f"{name}.{key}", f"one of {', '.join(known)}", "an unknown name")
        if not isinstance(table.get("set", {}), dict):
            raise self._error(f"{name}.set", "a table", repr(table["set"])[:40])
        return table

    def _axes(self, table: Mapping[str, Any]) -> tuple[Axis, ...]:
        given = [(name, values) for name, values in table.items() if name != "set"]
        given += [(_joined(name), values) for name, values in table.get("set", {}).items()]
        axes: list[Axis] = []
        keys: set[str] = set()
        for name, values in given:
            field = f"axes.{name}"
            if not isinstance(values, list) or not values:
                raise self._error(field, "a list of values", repr(values)[:40])
            for value in values:
                self._scalar(field, value)
            texts = [_text(value) for value in values]
            if len(set(texts)) != len(texts):
                raise self._error(field, "values that differ", "the same value twice")
            for key in name.split(", "):
                if not key or key in keys:
                    raise self._error(field, "every name once", repr(key))
                keys.add(key)
            axes.append(Axis(name, tuple(values)))
        return tuple(axes)

    def _run(self, base: Mapping[str, Any], axes: Sequence[Axis], point: Sequence[Scalar]) -> SweepRun:
        own: dict[str, Any] = {name: value for name, value in base.items() if name != "set"}
        settings = {
            key: _text(self._scalar(f"base.set.{key}", value)) for key, value in base.get("set", {}).items()
        }
        for axis, value in zip(axes, point, strict=True):
            if axis.name in _BASE_NAMES:
                own[axis.name] = value
            else:
                settings.update({key: _text(value) for key in axis.name.split(", ")})
        return SweepRun(
            self._file("model", own["model"]),
            self._word("target", own.get("target", "")),
            self._word("preset", own.get("preset", "")),
            self._file("config", own["config"]) if own.get("config") else "",
            tuple(sorted(settings.items())),
            self._whole("seed", own.get("seed", 0)),
            self._whole("until", own["until"]) if "until" in own else None,
        )

    def _columns(
        self, content: Mapping[str, Any], axes: Sequence[Axis]
    ) -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
        metrics = self._words(content, "metrics") or {"cycles": "cycles"}
        derived = self._words(content, "derived")
        known = {key for axis in axes for key in axis.name.split(", ")}
        for name, path in metrics.items():
            self._checked(f"metrics.{name}", lambda path=path: check_path(path))
            if name in known:
                raise self._error(f"metrics.{name}", "a name that no axis has", "the name of an axis")
            known.add(name)
        for name, expression in derived.items():
            self._checked(f"derived.{name}", lambda text=expression: check_expression(text, known))
            if name in known:
                raise self._error(f"derived.{name}", "a name of its own", "a name that is taken")
            known.add(name)
        objectives = self._words(content, "objectives") or {next(iter(metrics)): "min"}
        for name, direction in objectives.items():
            if name not in metrics and name not in derived:
                raise self._error(f"objectives.{name}", "a name of [metrics] or [derived]", "another")
            if direction not in ("min", "max"):
                raise self._error(f"objectives.{name}", "min or max", repr(direction)[:40])
        return metrics, derived, objectives

    def _words(self, content: Mapping[str, Any], name: str) -> dict[str, str]:
        table = content.get(name, {})
        if not isinstance(table, dict):
            raise self._error(name, "a table", repr(table)[:40])
        for key, value in table.items():
            if not isinstance(value, str) or not value:
                raise self._error(f"{name}.{key}", "text", repr(value)[:40])
        return dict(table)

    def _checked(self, field: str, check: Any) -> None:
        try:
            check()
        except UsageError as error:
            raise FormatError(self._path, field=field, found=str(error)) from None

    def _scalar(self, field: str, value: Any) -> Scalar:
        if isinstance(value, bool | str | int) or (isinstance(value, float) and math.isfinite(value)):
            return value
        raise self._error(field, "a number or text", repr(value)[:40])

    def _word(self, field: str, value: Any) -> str:
        if not isinstance(value, str):
            raise self._error(f"base.{field}", "text", repr(value)[:40])
        return value

    def _whole(self, field: str, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 62:
            raise self._error(f"base.{field}", "a whole number from 0", repr(value)[:40])
        return value

    def _file(self, field: str, value: Any) -> str:
        """Find a file beside the plan, an absolute path, or a sample model. Raises FormatError."""
        name = self._word(field, value)
        if name not in self._found:
            beside = self._path.parent / name
            try:
                found = beside if os.path.exists(beside) else find_file(name)
            except NpuvizError as error:
                raise FormatError(self._path, field=field, found=str(error)) from None
            self._found[name] = str(found.resolve())
        return self._found[name]

    def _error(self, field: str, expected: str, found: str) -> FormatError:
        return FormatError(self._path, field=field, expected=expected, found=found)


def _joined(name: str) -> str:
    return ", ".join(part.strip() for part in name.split(","))


def _text(value: Scalar) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def run_key(run: SweepRun, digests: dict[str, str]) -> str:
    """Compute the name of a run's result: a hash of all its inputs, file contents and npuviz's version
    included.

    `digests` caches the hashes of files between calls. Files that a model or a description refers to
    (weights, DRAM and network files) are not hashed.
    """
    content = {
        **asdict(run),
        "npuviz": __version__,
        "model": _file_digest(run.model, digests),
        "suffix": Path(run.model).suffix,
        "config": _file_digest(run.config, digests) if run.config else "",
    }
    text = json.dumps(content, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


def _file_digest(name: str, digests: dict[str, str]) -> str:
    if name not in digests:
        path = Path(name)
        digest = hashlib.blake2b(digest_size=16)
        for part in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if part.is_file():
                if part != path:
                    digest.update(str(part.relative_to(path)).encode())
                with part.open("rb") as file:
                    while chunk := file.read(1 << 20):
                        digest.update(chunk)
        digests[name] = digest.hexdigest()
    return digests[name]
