"""Execute calls that only configure routes once for all PEs that differ in nothing but their coordinates.

A layout calls its helpers for every PE, and most of them use the coordinates for nothing but
`@set_color_config(x, y, ..)`. The first call with given other arguments is recorded; later ones configure the
same channels at their own coordinates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field, fields
from functools import cache

from npuviz.targets.wavelet.csl.comptime.scope import FunctionValue, ModuleValue, Scope
from npuviz.targets.wavelet.csl.comptime.values import Value
from npuviz.targets.wavelet.csl.syntax import tree
from npuviz.targets.wavelet.wafer import Channel

CONFIGURE = "set_color_config"
MISSES_BEFORE_GIVING_UP = 256
"""Most different arguments of one function, or values of names of one configuration, that are kept."""
_PLAIN = (
    *(tree.StructLiteral, tree.FieldValue, tree.TupleLiteral, tree.Name, tree.IfExpression),
    *(tree.IntegerLiteral, tree.BooleanLiteral, tree.Unary, tree.Binary, tree.Member),
)
"""Nodes of configurations whose value depends only on the values of their names."""


@dataclass(frozen=True, slots=True)
class Configured:
    """One `@set_color_config` that was executed.

    repeat  configures the same at other coordinates
    """

    node: tree.BuiltinCall
    place: tuple[int, int]
    repeat: Callable[[tuple[int, int]], None]


@dataclass(frozen=True, slots=True)
class Passing:
    """A function whose parameters are used as coordinates of `@set_color_config` and for nothing else.

    passed  indices of those parameters
    sites   call of `@set_color_config` -> indices of the column and row parameters, -1: another expression
    """

    passed: tuple[int, ...]
    sites: dict[tree.BuiltinCall, tuple[int, int]]


Repeats = tuple[tuple[int, int, Configured], ...]
"""What a call configured: (column parameter, row parameter, what); -1: the coordinate stays as recorded."""


@dataclass(slots=True)
class RouteCalls:
    """Memory of route calls for one compilation.

    recording  what the call under way has configured so far, None outside such calls
    """

    recording: list[Configured] | None = None
    _passing: dict[tree.Function, Passing | None] = field(default_factory=dict[tree.Function, Passing | None])
    _calls: dict[tree.Function, dict[Hashable, Repeats]] = field(
        default_factory=dict[tree.Function, dict[Hashable, Repeats]]
    )
    _names: dict[tree.Expression, tuple[str, ...] | None] = field(
        default_factory=dict[tree.Expression, tuple[str, ...] | None]
    )
    _channels: dict[tree.Expression, dict[Hashable, Channel]] = field(
        default_factory=dict[tree.Expression, dict[Hashable, Channel]]
    )

    # ---- calls ----

    def passing(self, function: FunctionValue) -> Passing | None:
        """Return how a function passes coordinates on; None if it does not, or has too many kinds of
        calls."""
        node = function.node
        if node not in self._passing:
            self._passing[node] = _passing(node)
        found = self._passing[node]
        if found is not None and len(self._calls.get(node, ())) > MISSES_BEFORE_GIVING_UP:
            found = self._passing[node] = None
        return found

    def find(self, function: FunctionValue, key: Hashable) -> Repeats | None:
        """Return what an earlier call with the same other arguments configured, None without one."""
        calls = self._calls.get(function.node)
        return None if calls is None else calls.get(key)

    def keep(self, function: FunctionValue, key: Hashable, how: Passing, made: list[Configured]) -> None:
        """Remember what a call configured."""
        repeats = tuple((*how.sites[one.node], one) for one in made)
        self._calls.setdefault(function.node, {})[key] = repeats

    # ---- configurations ----

    def channel_key(self, node: tree.Expression, color: int, scope: Scope) -> Hashable | None:
        """Return a key of what a configuration depends on: color and values of its names; None if it may
        depend on more."""
        if node not in self._names:
            self._names[node] = _plain_names(node)
        names = self._names[node]
        if names is None or len(self._channels.get(node, ())) > MISSES_BEFORE_GIVING_UP:
            return None
        found: list[object] = [scope.instance, color]
        for name in names:
            entry = scope.find(name)
            if entry is None and name in scope.instance.declarations:
                entry = scope.instance.members.get(name)
                if entry is None or isinstance(entry, FunctionValue) or entry.is_var or entry.state != 4:
                    return None
                entry = entry.value
            if entry is not None and (not isinstance(entry, Value) or isinstance(entry, ModuleValue)):
                return None
            found.append(entry)
        return tuple(found)

    def channel(self, node: tree.Expression, key: Hashable) -> Channel | None:
        """Return the channel that a configuration described with these values, None if none is kept."""
        known = self._channels.get(node)
        return None if known is None else known.get(key)

    def keep_channel(self, node: tree.Expression, key: Hashable, channel: Channel) -> None:
        """Remember a channel."""
        self._channels.setdefault(node, {})[key] = channel


@cache
def _fields(kind: type[tree.Node]) -> tuple[str, ...]:
    return tuple(one.name for one in fields(kind) if one.name != "at")


def _below(node: tree.Node) -> Iterator[tree.Node]:
    """Yield a node and everything inside it."""
    yield node
    for name in _fields(type(node)):
        value = getattr(node, name)
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, tree.Node):
                yield from _below(item)


def _plain_names(node: tree.Expression) -> tuple[str, ...] | None:
    """Return the names that an expression mentions, None if it does more than combine values."""
    names: dict[str, None] = {}
    for part in _below(node):
        if not isinstance(part, _PLAIN):
            return None
        if isinstance(part, tree.Name):
            names[part.text] = None
    return tuple(names)


def _passing(function: tree.Function) -> Passing | None:
    """Return how a function passes coordinates on, None if every parameter has other uses."""
    body = function.body
    if body is None or any(parameter.comptime for parameter in function.parameters):
        return None
    numbers = {parameter.name: number for number, parameter in enumerate(function.parameters)}
    mentions: Counter[str] = Counter()
    passes: Counter[str] = Counter()
    sites: dict[tree.BuiltinCall, tuple[int, int]] = {}
    for part in _below(body):
        if isinstance(part, tree.Name):
            mentions[part.text] += 1
        elif isinstance(part, tree.Variable | tree.For | tree.TensorAccess):
            # A name declared in the body could hide a parameter.
            mentions.update(_declared(part))
        elif isinstance(part, tree.BuiltinCall) and part.name == CONFIGURE and len(part.arguments) == 4:
            names = [one.text if isinstance(one, tree.Name) else "" for one in part.arguments[:2]]
            passes.update(names)
            sites[part] = (numbers.get(names[0], -1), numbers.get(names[1], -1))
    passed = tuple(number for name, number in numbers.items() if 0 < passes[name] == mentions[name])
    if not passed:
        return None
    known = (*passed, -1)
    return Passing(
        passed,
        {node: (x if x in known else -1, y if y in known else -1) for node, (x, y) in sites.items()},
    )


def _declared(node: tree.Variable | tree.For | tree.TensorAccess) -> tuple[str, ...]:
    if isinstance(node, tree.Variable):
        return (node.name,)
    return (node.element, node.index) if isinstance(node, tree.For) else node.variables
