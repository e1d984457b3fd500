"""Find the names that an expression mentions: a quick test whether it can be known at compile time."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import cache

from npuviz.targets.wavelet.csl.comptime.scope import Global, RuntimeLocal, Scope
from npuviz.targets.wavelet.csl.lower.operation_forms import OPERATIONS
from npuviz.targets.wavelet.csl.syntax import tree

LITERALS = (
    *(tree.IntegerLiteral, tree.FloatLiteral, tree.BooleanLiteral),
    *(tree.StringLiteral, tree.VoidLiteral),
)
RUNTIME_BUILTINS = frozenset(
    (
        *OPERATIONS,
        *("activate", "block", "unblock", "map", "assert", "system"),
        *("ptrcast", "random16", "set_active_prng"),
        *("load_to_dsr", "load_to_dsr_xdsr", "load_to_dsr_xdsr_sr", "queue_flush"),
        "set_dsr_base_addr",
        *("set_fifo_read_length", "set_fifo_write_length"),
        *("set_config", "get_config", "set_config_unchecked", "get_config_unchecked"),
    )
)
"""Builtins whose result is never known at compile time."""
_TYPE_QUERIES = frozenset(("type_of",))


@dataclasses.dataclass(slots=True)
class Mentions:
    """What an expression mentions.

    values      names whose value is needed
    addresses   names of which only the address is needed (`&a`, base of a tensor access)
    queried     names of which only the type is needed
    is_runtime  whether it contains a call or a builtin with an effect
    """

    values: set[str] = dataclasses.field(default_factory=set[str])
    addresses: set[str] = dataclasses.field(default_factory=set[str])
    queried: set[str] = dataclasses.field(default_factory=set[str])
    is_runtime: bool = False


@cache
def _fields(kind: type[tree.Node]) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind) if field.name != "at")


def children(node: tree.Node) -> Iterator[tree.Node]:
    """Yield the nodes directly below a node."""
    for name in _fields(type(node)):
        value = getattr(node, name)
        if isinstance(value, tree.Node):
            yield value
        elif isinstance(value, tuple):
            for item in value:
                if isinstance(item, tree.Node):
                    yield item


_mentions: dict[tree.Node, Mentions] = {}


def forget() -> None:
    """Drop what is remembered of earlier compilations."""
    _mentions.clear()
    _addressed.clear()


def mentions(node: tree.Expression) -> Mentions:
    """Return what an expression mentions, remembered per node."""
    found = _mentions.get(node)
    if found is None:
        found = _mentions[node] = Mentions()
        _collect(node, found)
    return found


def _collect(node: tree.Node, found: Mentions) -> None:
    if isinstance(node, tree.Name):
        found.values.add(node.text)
        return
    if isinstance(node, tree.AddressOf):
        _collect_address(node.operand, found)
        return
    if isinstance(node, tree.TensorAccess):
        inner = Mentions()
        for part in (*node.lengths, *node.indices):
            _collect(part, inner)
        found.values |= inner.values - set(node.variables)
        found.addresses |= inner.addresses
        found.is_runtime |= inner.is_runtime
        _collect_address(node.base, found)
        return
    if isinstance(node, tree.Call):
        found.is_runtime = True
    elif isinstance(node, tree.BuiltinCall):
        if node.name in _TYPE_QUERIES:
            inner = Mentions()
            for part in node.arguments:
                _collect(part, inner)
            found.queried |= inner.values | inner.addresses | inner.queried
            return
        if node.name in RUNTIME_BUILTINS:
            found.is_runtime = True
    elif isinstance(node, tree.ComptimeExpression):
        inner = Mentions()
        _collect(node.operand, inner)
        found.values |= inner.values
        found.addresses |= inner.addresses
        found.queried |= inner.queried
        return
    for child in children(node):
        if isinstance(child, tree.Binary):
            # Long chains of operators: what the left part mentions is remembered, not collected again.
            inner = mentions(child)
            found.values |= inner.values
            found.addresses |= inner.addresses
            found.queried |= inner.queried
            found.is_runtime |= inner.is_runtime
        else:
            _collect(child, found)


def _collect_address(node: tree.Expression, found: Mentions) -> None:
    """Collect the names of `&node`: the innermost base is only an address, indices are values."""
    while True:
        if isinstance(node, tree.Name):
            found.addresses.add(node.text)
            return
        if isinstance(node, tree.Index):
            for index in node.indices:
                _collect(index, found)
            node = node.base
        elif isinstance(node, tree.Member):
            node = node.base
        else:
            _collect(node, found)
            return


def may_be_known(node: tree.Expression, scope: Scope) -> bool:
    """Return False if the expression certainly depends on something that exists only at run time."""
    if isinstance(node, LITERALS):
        return True
    found = mentions(node)
    if found.is_runtime:
        return False
    for name in found.values:
        entry = scope.find(name)
        if entry is None:
            entry = scope.instance.member(name)
        if isinstance(entry, RuntimeLocal) or (isinstance(entry, Global) and entry.is_var):
            return False
    return not any(isinstance(scope.find(name), RuntimeLocal) for name in found.addresses)


def all_names(node: tree.Expression) -> set[str]:
    """Return every name that the value of an expression may depend on."""
    found = mentions(node)
    return found.values | found.addresses | found.queried


_addressed: dict[tree.Node, frozenset[str]] = {}


def address_taken(body: tree.Node) -> frozenset[str]:
    """Return the names of which a function body takes the address somewhere."""
    found = _addressed.get(body)
    if found is None:
        names: set[str] = set()
        stack: list[tree.Node] = [body]
        while stack:
            node = stack.pop()
            if isinstance(node, tree.AddressOf):
                root = node.operand
                while isinstance(root, tree.Member | tree.Index):
                    root = root.base
                if isinstance(root, tree.Name):
                    names.add(root.text)
            stack.extend(children(node))
        found = _addressed[body] = frozenset(names)
    return found
