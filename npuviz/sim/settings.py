"""Specs from presets, description files and `--set` pairs: one way for targets that need no more.

A spec is a frozen dataclass whose field types say what values are allowed (pydantic reads them). A
description file is a JSON object with keys of the spec, and `preset` for what it starts from.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from npuviz.base.errors import FormatError, UsageError

if TYPE_CHECKING:
    from pydantic import ValidationError

Spec = TypeVar("Spec")


def _no_words(_key: str, text: str) -> str:
    return text


def _no_problem(_spec: Any) -> str:
    return ""


@dataclass(frozen=True)
class SpecSettings(Generic[Spec]):
    """How one target's spec is made.

    spec      the dataclass; fixed  fields that only presets decide
    presets   name -> values of all fields that have no default
    word      key and text of a `--set` pair -> the text to validate (short names of values)
    problem   what two values of a spec say against each other, "" if nothing
    """

    spec: type[Spec]
    presets: Mapping[str, Mapping[str, Any]]
    fixed: tuple[str, ...] = ()
    word: Callable[[str, str], str] = field(default=_no_words)
    problem: Callable[[Spec], str] = field(default=_no_problem)

    @property
    def names(self) -> tuple[str, ...]:
        """Fields that `--set` and a description may change."""
        found: Any = self.spec
        return tuple(each.name for each in fields(found) if each.name not in self.fixed)

    def similar(self, name: str) -> list[str]:
        """Settings whose names are close to a name that is none."""
        return get_close_matches(name, self.names, n=3)

    def unknown(self, name: str) -> UsageError:
        """The error for an unknown `--set` name."""
        close = self.similar(name)
        hint = f"close: {', '.join(close)}" if close else f"keys are {', '.join(self.names[:6])}, ..."
        return UsageError(f"--set {name[:60]}: unknown key; {hint}")

    def make(
        self, preset: str = "", described: Mapping[str, Any] | None = None, file: Path | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> Spec:  # fmt: skip
        """The spec of a preset ("" for the first), changed by a description's values and `--set` pairs.

        Raises FormatError (description `file`), UsageError (preset, setting).
        """
        given = dict(described or {})
        name = preset or str(given.pop("preset", "")) or next(iter(self.presets))
        given.pop("preset", None)
        if name not in self.presets:
            raise UsageError(f"unknown preset {name[:60]!r}; there are {', '.join(self.presets)}")
        for key in given:
            if key not in self.names:
                close = self.similar(key)
                hint = f"close: {', '.join(close)}" if close else "keys are those of --set"
                raise FormatError(str(file), field=f"key {key[:60]!r}", expected="a known key", hint=hint)
        values: dict[str, Any] = {**self.presets[name], **given}
        for key, text in (settings or {}).items():
            if key not in self.names:
                raise self.unknown(key)
            values[key] = self.word(key, text.strip())
        spec = self._validated(values, file, settings or {})
        problem = self.problem(spec)
        if problem:
            raise FormatError(file, found=problem) if file else UsageError(f"--set {problem}")
        return spec

    def _validated(self, values: dict[str, Any], file: Path | None, settings: Mapping[str, str]) -> Spec:
        # Imported here: it takes a tenth of a second, and the window lists presets without it.
        from pydantic import TypeAdapter, ValidationError

        try:
            return TypeAdapter(self.spec).validate_python(values)
        except ValidationError as error:
            raise self._refusal(error, file, settings) from None

    def _refusal(
        self, error: "ValidationError", file: Path | None, settings: Mapping[str, str]
    ) -> FormatError | UsageError:
        first = error.errors()[0]
        key = str(first["loc"][0]) if first["loc"] else ""
        wanted = first["msg"].removeprefix("Input ").removeprefix("should be ").split(",")[0]
        found = str(settings.get(key, first.get("input")))[:60]
        if file and key not in settings:
            return FormatError(file, field=f"key {key!r}", expected=wanted, found=found)
        return UsageError(f"--set {key}={found}: expected {wanted}")
