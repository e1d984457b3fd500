"""Import files: `@import_module` makes a separate instance of a file, `@import_comptime_value` reads JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from npuviz.targets.wavelet.csl.comptime import types as t
from npuviz.targets.wavelet.csl.comptime.builtins.ids import fields_of
from npuviz.targets.wavelet.csl.comptime.builtins.table import builtin
from npuviz.targets.wavelet.csl.comptime.builtins.values import string_of
from npuviz.targets.wavelet.csl.comptime.evaluator import Comptime
from npuviz.targets.wavelet.csl.comptime.scope import (
    ExportSymbol,
    Global,
    ModuleInstance,
    ModuleValue,
    PeRegistry,
    Scope,
)
from npuviz.targets.wavelet.csl.comptime.session import FileParts
from npuviz.targets.wavelet.csl.comptime.values import (
    FALSE,
    TRUE,
    Scalar,
    StringValue,
    Value,
    anonymous,
    tuple_of,
)
from npuviz.targets.wavelet.csl.syntax import tree
from npuviz.targets.wavelet.csl.syntax.errors import CslError, NotComptime

MAX_IMPORT_DEPTH = 32
MAX_JSON_BYTES = 16_000_000
"""Largest JSON file; larger ones are refused."""


def instantiate(
    comptime: Comptime,
    parts: FileParts,
    params: Mapping[str, Value],
    name: str,
    pe: PeRegistry | None,
    at: tree.Span | None,
) -> ModuleInstance:
    """Make a new instance of a file; unknown parameters give a warning."""
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

    Needed are imports, FIFOs and exports. Other declarations are evaluated when something uses them:
    published programs contain unused ones that would be wrong. In files of the user they are tried, and
    errors become warnings.
    """
    entries = {name: instance.member(name) for name in parts.eager}
    for name, entry in entries.items():
        if entry is not None and entry.node.linkage == "export" and instance.pe is not None:
            instance.pe.declared_exports.append(ExportSymbol(name, entry, entry.node.at))
    for entry in entries.values():
        if isinstance(entry, Global):
            comptime.global_value(entry)
    if blocks:
        for block in parts.blocks:
            comptime.execute(block.body, instance.scope)
    if instance.pe is not None and not parts.is_library:
        _try_unused(comptime, instance, parts)


def _try_unused(comptime: Comptime, instance: ModuleInstance, parts: FileParts) -> None:
    for name, node in parts.declarations.items():
        entry = instance.member(name)
        if not isinstance(entry, Global) or entry.state == 4 or _is_unbound(entry):
            continue
        try:
            comptime.global_value(entry)
        except CslError as error:
            if instance.pe is not None:
                text = f"{node.name} is wrong, but not used so far: {error.text}"
                instance.pe.warnings.append((error.at or node.at, text))


def _is_unbound(entry: Global) -> bool:
    """Return whether this is a param without a value: an error only if something reads it."""
    node = entry.node
    return node.kind == "param" and node.value is None and node.name not in entry.instance.params


def merge_exports(pe: PeRegistry) -> None:
    """Add `export` declarations to the exports; an `@export_symbol` of the same name has priority."""
    taken = {export.name for export in pe.exports}
    for export in pe.declared_exports:
        if export.name not in taken:
            taken.add(export.name)
            pe.exports.append(export)


@builtin("import_module", 1, 2)
def _import_module(comptime: Comptime, node: tree.BuiltinCall, scope: Scope) -> Value:
    if scope.runtime or scope.forced:
        raise NotComptime(node.at, "a module is imported by a global const")
    session = comptime.session
    importer = scope.instance
    at = node.arguments[0].at
    path = session.resolve(string_of(comptime, node.arguments[0], scope), session.parts_of(importer.file), at)
    params = fields_of(comptime, node, 1, scope, "parameters")
    if session.import_depth >= MAX_IMPORT_DEPTH:
        raise CslError(
            node.at, f"imports are nested deeper than {MAX_IMPORT_DEPTH}", "do files import each other?"
        )
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


# ---- JSON ----


@builtin("import_comptime_value", 2)
def _import_comptime_value(comptime: Comptime, node: tree.BuiltinCall, scope: Scope) -> Value:
    target = comptime.type_expression(node.arguments[0], scope)
    at = node.arguments[1].at
    session = comptime.session
    name = string_of(comptime, node.arguments[1], scope)
    path = session.resolve(name, session.parts_of(scope.instance.file), at)
    try:
        if path.stat().st_size > MAX_JSON_BYTES:
            raise CslError(at, f"{path} is larger than {MAX_JSON_BYTES} bytes")
        content = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise CslError(at, f"{path} is not JSON: {str(error).splitlines()[0]}") from None
    return comptime.coerce(_value(comptime, content, at), target, at)


def _value(comptime: Comptime, content: Any, at: tree.Span) -> Value:
    """Return JSON as a value: arrays become tuples, objects structs; a key is a name or `name:type`."""
    if isinstance(content, bool):
        return TRUE if content else FALSE
    if isinstance(content, int):
        return Scalar(t.COMPTIME_INT, content)
    if isinstance(content, float):
        return Scalar(t.COMPTIME_FLOAT, content)
    if isinstance(content, str):
        return StringValue(content.encode())
    if isinstance(content, list):
        return tuple_of([_value(comptime, item, at) for item in content])
    if isinstance(content, dict):
        fields: dict[str, Value] = {}
        for key, item in content.items():
            name, _, kind = str(key).partition(":")
            value = _value(comptime, item, at)
            fields[name.strip()] = _typed(comptime, value, kind.strip(), at) if kind else value
        return anonymous(fields)
    raise CslError(at, "null has no value in CSL")


def _typed(comptime: Comptime, value: Value, name: str, at: tree.Span) -> Value:
    kind = t.named_type(name)
    if kind is None:
        raise CslError(at, f"{name} in a JSON key is not a type")
    return comptime.coerce(value, kind, at)
