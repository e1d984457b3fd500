"""`@import_comptime_value`: a JSON file as a value of a given type."""

from __future__ import annotations

import json
from typing import Any

from npuviz.targets.wavelet.csl.comptime import types as t
from npuviz.targets.wavelet.csl.comptime.builtins.table import builtin
from npuviz.targets.wavelet.csl.comptime.builtins.values import string_of
from npuviz.targets.wavelet.csl.comptime.evaluator import Comptime
from npuviz.targets.wavelet.csl.comptime.scope import Scope
from npuviz.targets.wavelet.csl.comptime.values import (
    FALSE,
    TRUE,
    Scalar,
    StringValue,
    Value,
    anonymous,
    tuple_of,
)
from npuviz.targets.wavelet.csl.syntax.errors import CslError
from npuviz.targets.wavelet.csl.syntax.tree import BuiltinCall, Span

MAX_BYTES = 16_000_000
"""Size of a file; larger ones are refused."""


@builtin("import_comptime_value", 2)
def _import_comptime_value(comptime: Comptime, node: BuiltinCall, scope: Scope) -> Value:
    target = comptime.type_expression(node.arguments[0], scope)
    at = node.arguments[1].at
    session = comptime.session
    name = string_of(comptime, node.arguments[1], scope)
    path = session.resolve(name, session.parts_of(scope.instance.file), at)
    try:
        if path.stat().st_size > MAX_BYTES:
            raise CslError(at, f"{path} is larger than {MAX_BYTES} bytes")
        content = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise CslError(at, f"{path} is not JSON: {str(error).splitlines()[0]}") from None
    return comptime.coerce(_value(comptime, content, at), target, at)


def _value(comptime: Comptime, content: Any, at: Span) -> Value:
    """JSON as a value: arrays become tuples, objects structs; a key is a name or `name:type`."""
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


def _typed(comptime: Comptime, value: Value, name: str, at: Span) -> Value:
    kind = t.named_type(name)
    if kind is None:
        raise CslError(at, f"{name} in a JSON key is not a type")
    return comptime.coerce(value, kind, at)
