"""Make specs from presets, description files and `--set` pairs.

A spec is a frozen dataclass whose field types say what values are allowed (pydantic reads them). A
description file is a JSON object with keys of the spec, and `preset` for the preset that it starts from.
"""

from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, get_args, get_origin, get_type_hints

from npuviz.base.errors import FormatError, UsageError
from npuviz.program.program import Note
from npuviz.sim.target import ASSUMED, LoadRequest, Setting

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError

Spec = TypeVar("Spec")
_SHOWN = 6


def _never(_name: str) -> bool:
    return False


def _no_problem(_spec: Any) -> str:
    return ""


def _no_sources(_spec: Any) -> Mapping[str, str]:
    return {}


@dataclass(frozen=True)
class SettingNames:
    """Names that `--set` accepts for a target's spec; all others are symbolic dimensions of a model.

    shown      names that an error gives as examples; () for the first ones
    is_pattern returns whether a name belongs to a family that `names` does not list
    """

    names: tuple[str, ...]
    shown: tuple[str, ...] = ()
    is_pattern: Callable[[str], bool] = field(default=_never)

    def __contains__(self, name: str) -> bool:
        return name in self.names or self.is_pattern(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def similar(self, name: str) -> list[str]:
        """Return the settings whose names are close to an unknown name."""
        return get_close_matches(name, self.names, n=3)

    def unknown(self, name: str) -> UsageError:
        """Return the error for an unknown `--set` name."""
        close = self.similar(name)
        shown = self.shown or self.names[:_SHOWN]
        hint = f"close: {', '.join(close)}" if close else f"keys are {', '.join(shown)}, ..."
        return UsageError(f"--set {name[:60]}: unknown key; {hint}")

    def refuse_others(self, settings: Mapping[str, str]) -> None:
        """Raise UsageError if any name is not that of a setting."""
        for name in settings:
            if name not in self:
                raise self.unknown(name)

    def own(self, settings: Mapping[str, str]) -> dict[str, str]:
        """Return the pairs that name settings."""
        return {name: text for name, text in settings.items() if name in self}

    def dimensions(self, settings: Mapping[str, str]) -> dict[str, int]:
        """Return the pairs that name dimensions of a model. Raises UsageError if one is no whole number."""
        found: dict[str, int] = {}
        for name, text in settings.items():
            if name in self:
                continue
            try:
                found[name] = int(text)
            except ValueError:
                if self.similar(name):
                    raise self.unknown(name) from None
                raise UsageError(
                    f"--set {name[:60]}={text[:60]}: no setting has this name, and a dimension of the model "
                    "needs a whole number"
                ) from None
        return found

    @contextmanager
    def hints(self, dimensions: Mapping[str, int]) -> Generator[None]:
        """Inside a `with` block that reads a model,
        add to a refused dimension's error the settings that it resembles."""
        try:
            yield
        except UsageError as error:
            close = [each for name in dimensions for each in self.similar(name)]
            if not close:
                raise
            raise UsageError(f"{error}; settings with such a name: {', '.join(close)}") from None


@dataclass(frozen=True)
class SpecSettings(Generic[Spec]):
    """Rules by which one target's spec is made.

    spec      the dataclass; fixed  fields that only presets set
    presets   name -> values of all fields that have no default
    words     key -> short name -> value, for keys that take words
    parse     key -> function from the text of a `--set` pair to the text to validate
    problem   returns how values of a spec contradict each other, "" if they do not
    sources   returns the source of each figure of a spec; "Assumed ..." becomes a note
    shown     names that the error about an unknown name gives as examples
    """

    spec: type[Spec]
    presets: Mapping[str, Mapping[str, Any]]
    fixed: tuple[str, ...] = ()
    words: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])
    parse: Mapping[str, Callable[[str], str]] = field(default_factory=dict[str, Callable[[str], str]])
    problem: Callable[[Spec], str] = field(default=_no_problem)
    sources: Callable[[Spec], Mapping[str, str]] = field(default=_no_sources)
    shown: tuple[str, ...] = ()

    @cached_property
    def names(self) -> SettingNames:
        """Fields that `--set` and a description may change."""
        found: Any = self.spec
        names = tuple(each.name for each in fields(found) if each.name not in self.fixed)
        return SettingNames(names, self.shown)

    def make(
        self, preset: str = "", described: Mapping[str, Any] | None = None, file: Path | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> tuple[Spec, tuple[Note, ...]]:  # fmt: skip
        """Make the spec of a preset ("" for the first), changed by a description's values and `--set` pairs,
        and notes on assumed figures that these did not change.

        Raises FormatError (description `file`), UsageError (preset, setting).
        """
        given = dict(described or {})
        name = preset or str(given.get("preset", "")) or next(iter(self.presets))
        self.check_preset(name)
        described = self._described(given, file)
        spec = (
            self.validated({**self.presets[name], **described}, file) if described else self.of_preset(name)
        )
        spec = self._set(spec, settings or {})
        changed = {*given, *(settings or {})}
        notes = [
            Note("info", "assumed", f"{key} = {getattr(spec, key)}: {source}")
            for key, source in self.sources(spec).items()
            if source.startswith(ASSUMED) and key not in changed
        ]
        return spec, tuple(notes)

    def of_preset(self, name: str) -> Spec:
        """Return the spec of a preset; its values need no validation, because they are the target's own."""
        kinds = get_type_hints(self.spec)
        values = self.presets[name].items()
        return self.spec(**{key: float(value) if kinds[key] is float else value for key, value in values})

    def rows(
        self, request: LoadRequest, described: Mapping[str, Any], *, is_decided_by_file: bool = False
    ) -> tuple[Setting, ...]:
        """Return what `HasSettings` needs: the settings of a request, without the dimensions of its model.

        described  values in the description file
        is_decided_by_file  the file is a compiled program, which decides settings that no preset gives
        Raises as `make`.
        """
        spec, _ = self.make(request.preset, described, request.config, self.names.own(request.settings))
        is_open = is_decided_by_file and not request.preset and request.config is None
        undecided = set(self.differing()) - set(request.settings) if is_open else set[str]()
        name = request.config.name if request.config is not None else ""
        return self.listed(spec, dict.fromkeys(described, f"in {name}"), undecided)

    def listed(
        self, spec: Spec, given: Mapping[str, str] | None = None, undecided: Collection[str] = ()
    ) -> tuple[Setting, ...]:
        """Return all settings of a spec.

        given      key -> where its value was given, instead of the source of the figure
        undecided  keys whose value depends on the file that is opened
        """
        sources, kinds = {**self.sources(spec), **(given or {})}, get_type_hints(self.spec)
        return tuple(
            Setting(name, "", "the file decides", self._choices(name, kinds[name]))
            if name in undecided
            else Setting(
                name,
                self._text(name, getattr(spec, name)),
                sources.get(name, ""),
                self._choices(name, kinds[name]),
            )
            for name in self.names
        )

    def differing(self) -> tuple[str, ...]:
        """Return the settings in which the presets differ."""
        specs = [self.make(preset)[0] for preset in self.presets]
        return tuple(name for name in self.names if len({getattr(spec, name) for spec in specs}) > 1)

    def _text(self, name: str, value: object) -> str:
        short = {long: word for word, long in self.words.get(name, {}).items()}
        return str(value).lower() if isinstance(value, bool) else short.get(str(value), str(value))

    def _choices(self, name: str, kind: object) -> tuple[str, ...]:
        if name in self.words:
            return tuple(self.words[name])
        if kind is bool:
            return ("true", "false")
        return tuple(str(word) for word in get_args(kind)) if get_origin(kind) is Literal else ()

    def change(
        self, spec: Spec, described: Mapping[str, Any], file: Path | None, settings: Mapping[str, str]
    ) -> Spec:
        """Return a spec changed by a description's values and `--set` pairs. Raises as `make`."""
        values = self._described(described, file)
        return self._set(self.validated({**_values(spec), **values}, file) if values else spec, settings)

    def check_preset(self, name: str) -> None:
        """Raise UsageError if there is no such preset."""
        if name not in self.presets:
            raise UsageError(f"unknown preset {name[:60]!r}; there are {', '.join(self.presets)}")

    def _described(self, given: Mapping[str, Any], file: Path | None) -> dict[str, Any]:
        """Return a description's values without `preset`, short names replaced by their values."""
        found: dict[str, Any] = {}
        for key, value in given.items():
            if key == "preset":
                continue
            if key not in self.names:
                close = self.names.similar(key)
                hint = f"close: {', '.join(close)}" if close else "keys are those of --set"
                raise FormatError(str(file), field=f"key {key[:60]!r}", expected="a known key", hint=hint)
            found[key] = self._word(key, value) if isinstance(value, str) else value
        return found

    def _word(self, key: str, text: str) -> str:
        return self.words.get(key, {}).get(text, text)

    def _set(self, spec: Spec, settings: Mapping[str, str]) -> Spec:
        if not settings:
            return spec
        self.names.refuse_others(settings)
        values = _values(spec)
        for key, given in settings.items():
            text = given.strip()
            values[key] = self.parse[key](text) if key in self.parse else self._word(key, text)
        return self.validated(values, None, settings)

    def validated(
        self, values: Mapping[str, Any], file: str | Path | None, settings: Mapping[str, str] | None = None
    ) -> Spec:
        """Validate these values of the fields and return their spec.

        settings  the `--set` pairs as the user wrote them; without a file, all values are from these
        Raises FormatError (`file`), UsageError.
        """
        # Imported here: it takes a tenth of a second, and the window lists presets without it.
        from pydantic import ValidationError

        try:
            spec = _adapter(self.spec).validate_python(values)
        except ValidationError as error:
            raise self._refusal(error, file, settings or {}) from None
        problem = self.problem(spec)
        if problem:
            raise FormatError(file, found=problem) if file else UsageError(f"--set {problem}")
        return spec

    def _refusal(
        self, error: "ValidationError", file: str | Path | None, settings: Mapping[str, str]
    ) -> FormatError | UsageError:
        first = error.errors()[0]
        key = str(first["loc"][0]) if first["loc"] else ""
        wanted = first["msg"].removeprefix("Input ").removeprefix("should be ").split(",")[0]
        if key in self.words:
            wanted = f"one of {', '.join(self.words[key])}"
        found = str(settings.get(key, first.get("input")))[:60]
        if file:
            return FormatError(file, field=f"key {key!r}", expected=wanted, found=found)
        return UsageError(f"--set {key}={found}: expected {wanted}")


@cache
def _adapter(spec: Any) -> "TypeAdapter[Any]":
    from pydantic import TypeAdapter

    return TypeAdapter(spec)


def _values(spec: Any) -> dict[str, Any]:
    return {each.name: getattr(spec, each.name) for each in fields(spec)}
