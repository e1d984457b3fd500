"""Elaborate a program: from the file with the layout block to the distinct PE programs, routes and
exports."""

from __future__ import annotations

import sys
from collections.abc import Generator, Hashable, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from npuviz.base.errors import UsageError
from npuviz.targets.wavelet.csl import layout
from npuviz.targets.wavelet.csl.comptime import expressions, modules, statements, type_expressions
from npuviz.targets.wavelet.csl.comptime import types as t
from npuviz.targets.wavelet.csl.comptime.builtins import dsd as builtins_dsd
from npuviz.targets.wavelet.csl.comptime.builtins import exports as builtins_exports
from npuviz.targets.wavelet.csl.comptime.builtins import library as builtins_library
from npuviz.targets.wavelet.csl.comptime.builtins.ids import LAST_COLOR
from npuviz.targets.wavelet.csl.comptime.evaluator import Comptime
from npuviz.targets.wavelet.csl.comptime.scope import FunctionValue, ModuleInstance, PeRegistry, key_of
from npuviz.targets.wavelet.csl.comptime.session import FP16_FORMATS, FileParts, LayoutState, Session, Tile
from npuviz.targets.wavelet.csl.comptime.values import Scalar, Value
from npuviz.targets.wavelet.csl.routes import check_routes
from npuviz.targets.wavelet.csl.syntax import tree
from npuviz.targets.wavelet.csl.syntax.errors import CslError, source_error
from npuviz.targets.wavelet.wafer import Channel, SourcePlace

ARCHITECTURES = ("wse2", "wse3")
_PYTHON_FRAMES = 20_000
"""Python frames allowed while elaborating: 128 nested calls of deep expressions fit."""

REGISTERED = (
    expressions,
    statements,
    type_expressions,
    builtins_dsd,
    builtins_exports,
    builtins_library,
    layout,
)
"""Modules whose import enters rules and builtins into the tables."""


@dataclass(frozen=True, slots=True, eq=False)
class PeCode:
    """One PE program: a root instance with its parameters, and the PEs that run it.

    coordinates  (column, row) in the rectangle
    """

    root: ModuleInstance
    registry: PeRegistry
    coordinates: tuple[tuple[int, int], ...]
    file: str


@dataclass(frozen=True, slots=True, eq=False)
class Elaboration:
    """A program after all compile-time evaluation, ready to be lowered.

    channels  (column, row) -> colors that the layout configures there
    exported  name -> (type, is mutable) of `@export_name`, in order
    params    values given on the command line, as text
    prints    lines of `@comptime_print`, with their place
    """

    arch: str
    columns: int
    rows: int
    codes: tuple[PeCode, ...]
    channels: Mapping[tuple[int, int], tuple[Channel, ...]]
    exported: Mapping[str, tuple[t.Type, bool]]
    files: list[tree.SourceFile]
    warnings: tuple[str, ...]
    params: Mapping[str, str]
    comptime: Comptime
    fabric: tuple[int, int]
    offset: tuple[int, int]
    prints: tuple[str, ...] = ()


@contextmanager
def deep_calls(files: list[tree.SourceFile]) -> Generator[None]:
    """Allow deep Python recursion inside, and turn CslError and RecursionError into the user's error."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, _PYTHON_FRAMES))
    try:
        yield
    except CslError as error:
        raise source_error(error, files) from None
    except RecursionError:
        at = tree.Span(0, 1, 1, 1, 1)
        raise source_error(CslError(at, "the program is nested too deeply"), files) from None
    finally:
        sys.setrecursionlimit(limit)


def new_session(
    arch: str,
    *,
    import_paths: Sequence[Path] = (),
    fabric: tuple[int, int] = (0, 0),
    offset: tuple[int, int] = (4, 1),
    fp16: str = "f16",
) -> Session:
    """Return a session with checked options. Raises UsageError."""
    if arch not in ARCHITECTURES:
        raise UsageError(f"there is no architecture {arch!r}; use wse2 or wse3")
    if fp16 not in FP16_FORMATS:
        raise UsageError(f"there is no 16-bit float format {fp16!r}; use {', '.join(FP16_FORMATS)}")
    return Session(arch, FP16_FORMATS[fp16], tuple(import_paths), fabric, offset)


def elaborate(
    file: Path,
    arch: str,
    *,
    params: Mapping[str, int] | None = None,
    colors: Mapping[str, int] | None = None,
    import_paths: Sequence[Path] = (),
    fabric: tuple[int, int] = (0, 0),
    offset: tuple[int, int] = (4, 1),
    fp16: str = "f16",
) -> Elaboration:
    """Evaluate the layout block of `file` and the compile-time part of every PE's code.

    Raises CslSourceError (a SourceError) for anything wrong in the texts, UsageError for wrong options.
    """
    session = new_session(arch, import_paths=import_paths, fabric=fabric, offset=offset, fp16=fp16)
    comptime = Comptime(session)
    given = {**(params or {}), **(colors or {})}
    with deep_calls(session.files):
        parts = session.open(Path(file))
        if parts.layout is None:
            at = tree.Span(parts.source.index, 1, 1, 1, 1)
            raise CslError(at, "the file has no layout block", "give the file with `layout { .. }`")
        state = session.layout = LayoutState()
        bound = _bind(parts, params or {}, colors or {})
        root = modules.instantiate(comptime, parts, bound, "", None, None)
        comptime.execute(parts.layout.body, root.scope)
        if session.rectangle is None:
            raise CslError(parts.layout.at, "the layout never calls @set_rectangle")
        codes = _codes(comptime, state)
        _check_exports(comptime, state, codes)
    columns, rows = session.rectangle
    channels = {place: tuple(found.values()) for place, found in state.channels.items()}
    warnings = _warnings(session, codes, channels, columns, rows)
    exported = {name: (entry.type, entry.is_mutable) for name, entry in state.exported.items()}
    prints = tuple(f"{_where(session, at)}: {line}" for at, line in session.prints)
    texts = {name: str(value) for name, value in given.items()}
    return Elaboration(
        *(arch, columns, rows, tuple(codes), channels, exported, session.files, warnings, texts, comptime),
        *(session.fabric, session.offset, prints),
    )


def _bind(parts: FileParts, params: Mapping[str, int], colors: Mapping[str, int]) -> dict[str, Value]:
    """Return parameters of the command line as values; a number for a `color` becomes a color."""
    bound: dict[str, Value] = {name: Scalar(t.COMPTIME_INT, value) for name, value in params.items()}
    for name, value in params.items():
        node = parts.declarations.get(name)
        if isinstance(node, tree.Variable) and isinstance(node.type, tree.Name) and node.type.text == "color":
            bound[name] = _color(name, value)
    for name, value in colors.items():
        bound[name] = _color(name, value)
    return bound


def _color(name: str, value: int) -> Scalar:
    if not 0 <= value <= LAST_COLOR:
        raise UsageError(f"color {name}:{value} is out of range; colors are 0 to 23")
    return Scalar(t.COLOR, value)


def code_of(
    comptime: Comptime,
    path: Path,
    params: Mapping[str, Value],
    coordinates: tuple[tuple[int, int], ...],
    at: tree.Span | None = None,
) -> PeCode:
    """Evaluate the code of one PE program: its globals, imports and comptime blocks. Raises CslError."""
    parts = comptime.session.open(path, at)
    registry = PeRegistry()
    try:
        root = modules.instantiate(comptime, parts, params, "", registry, at)
        modules.start(comptime, root, parts)
        modules.merge_exports(registry)
    except CslError as error:
        if at is not None:
            error.notes.append((at, f"code of PE {coordinates[0]} set"))
        raise
    return PeCode(root, registry, coordinates, str(path))


def _codes(comptime: Comptime, state: LayoutState) -> list[PeCode]:
    """Return one PeCode for all PEs with the same file and equal parameters."""
    groups: dict[Hashable, list[tuple[int, int]]] = {}
    tiles: dict[Hashable, Tile] = {}
    for place, tile in state.tiles.items():
        key = (tile.path, tuple((name, key_of(value)) for name, value in tile.params.items()))
        groups.setdefault(key, []).append(place)
        tiles.setdefault(key, tile)
    codes: list[PeCode] = []
    for key, places in groups.items():
        tile = tiles[key]
        comptime.steps = 0
        codes.append(code_of(comptime, tile.path, tile.params, tuple(places), tile.at))
    return codes


def _check_exports(comptime: Comptime, state: LayoutState, codes: list[PeCode]) -> None:
    """Check the exports of PE programs against the names that the layout declares: type and mutability."""
    for code in codes:
        for export in code.registry.exports:
            declared = state.exported.get(export.name)
            if declared is None:
                continue
            subject = export.subject
            is_function = isinstance(subject, FunctionValue)
            found = comptime.signature(subject) if is_function else comptime.global_type(subject)
            text = ""
            if found is not None and not _is_same_export(found, declared.type):
                text = f"{export.name} has type {found}, the layout exports {declared.type}"
            elif not is_function and subject.is_var != declared.is_mutable:
                words = ("a const", "a var") if declared.is_mutable else ("a var", "constant")
                text = f"{export.name} is {words[0]}, the layout exports it as {words[1]}"
            if text:
                raise CslError(
                    export.at, text, "write the same in @export_name", note=(declared.at, "exported")
                )


def _is_same_export(found: t.Type, wanted: t.Type) -> bool:
    if found is wanted:
        return True
    return isinstance(found, t.PointerType) and wanted in (
        t.pointer(found.pointee, found.many, True),
        t.pointer(found.pointee, found.many, False),
    )


def _warnings(
    session: Session,
    codes: list[PeCode],
    channels: Mapping[tuple[int, int], tuple[Channel, ...]],
    columns: int,
    rows: int,
) -> tuple[str, ...]:
    """Return all warnings as lines, each text once."""
    merged = {place: list(found) for place, found in channels.items()}
    for code in codes:
        for place in code.coordinates if code.registry.channels else ():
            merged.setdefault(place, []).extend(code.registry.channels)
    lines: dict[str, None] = {}
    everything = list(session.warnings)
    for code in codes:
        everything += code.registry.warnings
    lines.update(dict.fromkeys(warning_lines(session, everything)))
    for place, text in check_routes(merged, columns, rows):
        lines[_line(session, place, text)] = None
    return tuple(lines)


def warning_lines(session: Session, warnings: Iterable[tuple[tree.Span | None, str]]) -> list[str]:
    """Return warnings as lines with their place."""
    return [
        _line(session, None if at is None else SourcePlace(at.file, at.line, at.column), text)
        for at, text in warnings
    ]


def _line(session: Session, place: SourcePlace | None, text: str) -> str:
    return f"warning: {text}" if place is None else f"{_where(session, place)}: warning: {text}"


def _where(session: Session, place: SourcePlace | tree.Span) -> str:
    return f"{session.files[place.file].path}:{place.line}:{place.column}"
