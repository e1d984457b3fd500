"""Hold one compilation: its options, its files, and the modules that imports make of them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from npuviz.base.names import echo
from npuviz.targets.wavelet.csl.comptime import types as t
from npuviz.targets.wavelet.csl.comptime.values import TypeValue, Value
from npuviz.targets.wavelet.csl.syntax import parser, tree
from npuviz.targets.wavelet.csl.syntax.errors import CslError
from npuviz.targets.wavelet.wafer import Channel

LIBRARY = Path(__file__).parents[1] / "library"
"""Folder of npuviz's own libraries: `<name>` is `name.csl` in it."""

OLD_LIBRARIES = {"memcpy_multi": "memcpy"}
"""Folder of libraries in SDK 0.9 and before -> its present name."""

FP16_FORMATS: dict[str, t.FloatType] = {"f16": t.F16, "bf16": t.BF16, "cb16": t.CB16}

_EAGER = frozenset(("import_module", "allocate_fifo"))


@dataclass(frozen=True, slots=True, eq=False)
class FileParts:
    """A parsed file, sorted by kind of declaration.

    declarations  variables and functions by name
    eager         variables that must be evaluated even if nothing uses them (imports, FIFOs, exports)
    """

    source: tree.SourceFile
    path: Path
    is_library: bool
    declarations: dict[str, tree.Variable | tree.Function]
    eager: tuple[str, ...]
    blocks: tuple[tree.ComptimeBlock, ...]
    layout: tree.Layout | None


@dataclass(frozen=True, slots=True)
class Tile:
    """The code that `@set_tile_code` gives to one PE."""

    path: Path
    params: Mapping[str, Value]
    at: tree.Span


@dataclass(frozen=True, slots=True)
class ExportedName:
    """A name that `@export_name` exports."""

    name: str
    type: t.Type
    is_mutable: bool
    at: tree.Span


@dataclass(slots=True)
class LayoutState:
    """What the layout block has configured so far."""

    tiles: dict[tuple[int, int], Tile] = field(default_factory=dict[tuple[int, int], Tile])
    channels: dict[tuple[int, int], dict[int, Channel]] = field(
        default_factory=dict[tuple[int, int], dict[int, Channel]]
    )
    exported: dict[str, ExportedName] = field(default_factory=dict[str, ExportedName])


@dataclass(slots=True)
class Session:
    """Options and files of one compilation.

    arch       "wse2" or "wse3"
    labels     struct and enum types, imports -> name of the const they initialise
    rectangle  (columns, rows) once known
    """

    arch: str
    fp16: t.FloatType = t.F16
    import_paths: tuple[Path, ...] = ()
    fabric: tuple[int, int] = (0, 0)
    offset: tuple[int, int] = (4, 1)
    rectangle: tuple[int, int] | None = None
    layout: LayoutState | None = None
    files: list[tree.SourceFile] = field(default_factory=list[tree.SourceFile])
    labels: dict[tree.Node, str] = field(default_factory=dict[tree.Node, str])
    warnings: list[tuple[tree.Span | None, str]] = field(default_factory=list[tuple[tree.Span | None, str]])
    prints: list[tuple[tree.Span, str]] = field(default_factory=list[tuple[tree.Span, str]])
    import_depth: int = 0
    named: t.Known = field(default_factory=dict[tuple[object, ...], t.Type])
    _old: set[str] = field(default_factory=set[str])
    _resolved: dict[tuple[str, int | None], Path] = field(default_factory=dict[tuple[str, int | None], Path])
    _by_path: dict[Path, FileParts] = field(default_factory=dict[Path, FileParts])
    _by_index: dict[int, FileParts] = field(default_factory=dict[int, FileParts])
    _type_values: dict[t.Type, TypeValue] = field(default_factory=dict[t.Type, TypeValue])

    def type_value(self, kind: t.Type) -> TypeValue:
        """Return a type as a value, one object per type."""
        found = self._type_values.get(kind)
        if found is None:
            found = self._type_values[kind] = TypeValue(kind)
        return found

    def resolve(self, name: str, importer: FileParts | None, at: tree.Span | None) -> Path:
        """Return the file that an import names. Raises CslError if there is none."""
        key = (name, None if importer is None else importer.source.index)
        found = self._resolved.get(key)
        if found is None:
            found = self._resolved[key] = self._search(name, importer, at)
        return found

    def _search(self, name: str, importer: FileParts | None, at: tree.Span | None) -> Path:
        if name.startswith("<") and name.endswith(">"):
            inner = name[1:-1]
            first, slash, rest = inner.partition("/")
            if slash and first in OLD_LIBRARIES:
                inner = f"{OLD_LIBRARIES[first]}/{rest}"
                self.note_old(at, f"<{first}/{rest}>", f"<{inner}>")
            candidates = [LIBRARY / f"{name[1:-1]}.csl", LIBRARY / f"{inner}.csl"]
            for directory in self.import_paths:
                candidates += [directory / f"{inner}.csl", directory / inner]
            hint = "libraries come with npuviz or from --import-path directories"
        else:
            base = importer.path.parent if importer is not None else Path()
            candidates = [base / name]
            if importer is not None and not name.endswith(".csl"):
                candidates.append(base / f"{name}.csl")
            root = self._root()
            if root is not None:
                candidates += [root / name, root / f"{name}.csl"]
            candidates += [directory / name for directory in self.import_paths]
            hint = f"looked in {base or '.'}"
        for candidate in candidates:
            if os.path.isfile(candidate):
                return Path(os.path.normpath(candidate))
        raise CslError(at, f"there is no file {echo(name)}", hint)

    def note_old(self, at: tree.Span | None, old: str, new: str) -> None:
        """Warn that `old` belongs to an earlier SDK, at its first use only."""
        if old not in self._old:
            self._old.add(old)
            self.warnings.append((at, f"{old} is of an earlier SDK; today it is {new}"))

    def _root(self) -> Path | None:
        """Return the folder of the file that was opened first: the one with the layout block."""
        return Path(self.files[0].path).parent if self.files else None

    def open(self, path: Path, at: tree.Span | None = None) -> FileParts:
        """Open and parse a file, once. Raises CslError."""
        found = self._by_path.get(path)
        if found is not None:
            return found
        try:
            if path.stat().st_size > 4 * parser.MAX_TEXT:
                raise CslError(at, f"{path} is too large", f"at most {parser.MAX_TEXT} characters are read")
            text = path.read_bytes().decode("utf-8")
        except OSError as error:
            raise CslError(at, f"cannot read {path}: {error.strerror or error}") from None
        except UnicodeDecodeError:
            raise CslError(at, f"{path} is not text in UTF-8") from None
        source = tree.SourceFile(len(self.files), str(path), text, ())
        self.files.append(source)
        source = parser.parse(text, str(path), source.index)
        self.files[source.index] = source
        found = self._by_path[path] = self._by_index[source.index] = self._sort(source, path)
        return found

    def parts_of(self, source: tree.SourceFile) -> FileParts:
        """Return the sorted parts of a file that was opened."""
        return self._by_index[source.index]

    def _sort(self, source: tree.SourceFile, path: Path) -> FileParts:
        declarations: dict[str, tree.Variable | tree.Function] = {}
        blocks: list[tree.ComptimeBlock] = []
        eager: list[str] = []
        layout: tree.Layout | None = None
        for node in source.declarations:
            if isinstance(node, tree.Layout):
                if layout is not None:
                    raise CslError(node.at, "a file has one layout block, this is the second")
                layout = node
            elif isinstance(node, tree.ComptimeBlock):
                blocks.append(node)
            else:
                earlier = declarations.get(node.name)
                if earlier is not None:
                    raise CslError(node.at, f"{node.name} is declared twice", note=(earlier.at, "first"))
                declarations[node.name] = node
                self._label(node)
                if self._is_eager(node):
                    eager.append(node.name)
        is_library = LIBRARY in path.parents
        return FileParts(source, path, is_library, declarations, tuple(eager), tuple(blocks), layout)

    def _label(self, node: tree.Variable | tree.Function) -> None:
        if isinstance(node, tree.Variable) and node.value is not None:
            self.labels[node.value] = node.name

    def _is_eager(self, node: tree.Variable | tree.Function) -> bool:
        if node.linkage == "export":
            return True
        return isinstance(node, tree.Variable) and _mentions_eager(node.value)


def _mentions_eager(node: tree.Expression | None) -> bool:
    """Return whether an initialiser imports a module or allocates a FIFO, also in a branch."""
    if isinstance(node, tree.BuiltinCall):
        return node.name in _EAGER
    if isinstance(node, tree.IfExpression):
        return _mentions_eager(node.then) or _mentions_eager(node.otherwise)
    if isinstance(node, tree.SwitchExpression):
        return any(isinstance(p.body, tree.Expression) and _mentions_eager(p.body) for p in node.prongs)
    return isinstance(node, tree.Member) and _mentions_eager(node.base)
