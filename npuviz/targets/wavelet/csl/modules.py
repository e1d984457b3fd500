"""Imports: every `@import_module` makes a separate instance of a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from npuviz.targets.wavelet.csl import tree
from npuviz.targets.wavelet.csl.builtins_table import builtin
from npuviz.targets.wavelet.csl.builtins_values import string_of
from npuviz.targets.wavelet.csl.errors import CslError, NotComptime
from npuviz.targets.wavelet.csl.scope import ExportSymbol, ModuleInstance, PeRegistry, Scope
from npuviz.targets.wavelet.csl.session import FileParts
from npuviz.targets.wavelet.csl.values import FunctionValue, Global, ModuleValue, StructValue, Value

if TYPE_CHECKING:
    from npuviz.targets.wavelet.csl.comptime import Comptime

MAX_IMPORT_DEPTH = 32


def instantiate(
    comptime: Comptime,
    parts: FileParts,
    params: Mapping[str, Value],
    name: str,
    pe: PeRegistry | None,
    at: tree.Span | None,
) -> ModuleInstance:
    """A new instance of a file; unknown parameters give a warning."""
    instance = ModuleInstance(parts.source, parts.declarations, params, name, pe, parts.is_library)
    for given in params:
        declared = parts.declarations.get(given)
        if not (isinstance(declared, tree.Variable) and declared.kind == "param"):
            comptime.session.warnings.append((at, f"{parts.path.name} has no param {given}"))
    if pe is not None:
        pe.instances.append(instance)
    return instance


def start(comptime: Comptime, instance: ModuleInstance, parts: FileParts, *, blocks: bool = True) -> None:
    """Evaluate what an instance needs in any case, then execute its comptime blocks.

    Files of the user are evaluated completely, so that errors in unused declarations are found; of the
    libraries only imports, FIFOs and exports.
    """
    names = parts.eager if parts.is_library or instance.pe is None else tuple(parts.declarations)
    for name in names:
        entry = instance.member(name)
        if isinstance(entry, Global):
            comptime.global_value(entry)
        node = parts.declarations[name]
        if node.linkage == "export" and instance.pe is not None and entry is not None:
            _export(instance.pe, name, entry, node.at)
    if blocks:
        for block in parts.blocks:
            comptime.execute(block.body, instance.scope)


def _export(pe: PeRegistry, name: str, entry: Global | FunctionValue, at: tree.Span) -> None:
    if not any(export.name == name for export in pe.exports):
        pe.exports.append(ExportSymbol(name, entry, at))


@builtin("import_module", 1, 2)
def _import_module(comptime: Comptime, node: tree.BuiltinCall, scope: Scope) -> Value:
    if scope.runtime or scope.forced:
        raise NotComptime(node.at, "a module is imported by a global const")
    session = comptime.session
    importer = scope.instance
    at = node.arguments[0].at
    path = session.resolve(string_of(comptime, node.arguments[0], scope), session.parts_of(importer.file), at)
    params: Mapping[str, Value] = {}
    if len(node.arguments) > 1:
        value = comptime.evaluate(node.arguments[1], scope)
        if not isinstance(value, StructValue):
            raise CslError(node.arguments[1].at, f"expected parameters as .{{..}}, found {value.type}")
        params = value.fields
    if session.import_depth >= MAX_IMPORT_DEPTH:
        raise CslError(node.at, f"imports are nested deeper than {MAX_IMPORT_DEPTH}", "do files import each other?")
    session.import_depth += 1
    try:
        parts = session.open(path, at)
        label = session.labels.get(node, "") or path.stem
        name = f"{importer.name}.{label}" if importer.name else label
        instance = instantiate(comptime, parts, params, name, importer.pe, node.at)
        start(comptime, instance, parts)
    except CslError as error:
        if len(error.notes) < 4 and error.at is not None and error.at.file != node.at.file:
            error.notes.append((node.at, "imported"))
        raise
    finally:
        session.import_depth -= 1
    return ModuleValue(instance)


