"""Evaluate the layout block: which PE runs which code, its routes, and the names that the host sees."""

from __future__ import annotations

from functools import partial

from npuviz.targets.wavelet.csl.comptime import types as t
from npuviz.targets.wavelet.csl.comptime.builtins.ids import fields_of, routable
from npuviz.targets.wavelet.csl.comptime.builtins.table import builtin, registry
from npuviz.targets.wavelet.csl.comptime.builtins.values import check_range, string_of
from npuviz.targets.wavelet.csl.comptime.evaluator import Comptime
from npuviz.targets.wavelet.csl.comptime.route_calls import Configured
from npuviz.targets.wavelet.csl.comptime.scope import Scope
from npuviz.targets.wavelet.csl.comptime.session import ExportedName, LayoutState, Tile
from npuviz.targets.wavelet.csl.comptime.values import (
    VOID,
    Scalar,
    Value,
    anonymous,
    boolean_of,
)
from npuviz.targets.wavelet.csl.routes import channel_of
from npuviz.targets.wavelet.csl.syntax import tree
from npuviz.targets.wavelet.csl.syntax.errors import CslError
from npuviz.targets.wavelet.csl.syntax.tree import BuiltinCall
from npuviz.targets.wavelet.wafer import MAX_SIDE, Channel

MAX_ARGUMENTS = 15


def _layout(comptime: Comptime, node: BuiltinCall, scope: Scope) -> LayoutState:
    state = comptime.session.layout
    if state is None or scope.instance.pe is not None:
        raise CslError(node.at, f"@{node.name} belongs into a layout block")
    return state


@builtin("set_rectangle", 2, effect=True)
def _set_rectangle(comptime: Comptime, node: BuiltinCall, scope: Scope) -> Value:
    _layout(comptime, node, scope)
    session = comptime.session
    if session.rectangle is not None:
        raise CslError(node.at, "the rectangle is set twice")
    width, height = (
        check_range(comptime.constant_integer(argument, scope), 1, MAX_SIDE, "side", argument.at)
        for argument in node.arguments
    )
    columns, rows = session.fabric
    if columns and (width + 7 > columns or height + 2 > rows):
        raise CslError(
            node.at,
            f"a rectangle of {width} x {height} does not fit in a fabric of {columns} x {rows}",
            f"it needs --fabric-dims={width + 7},{height + 2}",
        )
    session.rectangle = (width, height)
    return VOID


@builtin("get_rectangle", 0)
def _get_rectangle(comptime: Comptime, node: BuiltinCall, scope: Scope) -> Value:
    session = comptime.session
    if session.rectangle is None:
        raise CslError(node.at, "@get_rectangle comes after @set_rectangle")
    width, height = session.rectangle
    return anonymous(
        {
            "width": Scalar(t.U16, width),
            "height": Scalar(t.U16, height),
            "fabric": _size(session.fabric),
            "offsets": _size(session.offset),
        }
    )


def _size(pair: tuple[int, int]) -> Value:
    return anonymous({"width": Scalar(t.U16, pair[0]), "height": Scalar(t.U16, pair[1])})


def _coordinates(comptime: Comptime, node: BuiltinCall, scope: Scope) -> tuple[int, int]:
    first, second = node.arguments[:2]
    x, y = comptime.constant_integer(first, scope), comptime.constant_integer(second, scope)
    _check_place(comptime, node, x, y)
    return x, y


def _check_place(comptime: Comptime, node: BuiltinCall, x: int, y: int) -> None:
    rectangle = comptime.session.rectangle
    if rectangle is None:
        raise CslError(node.at, f"@{node.name} comes after @set_rectangle")
    if not (0 <= x < rectangle[0] and 0 <= y < rectangle[1]):
        raise CslError(
            node.at, f"PE ({x}, {y}) is outside of the rectangle of {rectangle[0]} x {rectangle[1]}"
        )


@builtin("set_tile_code", 2, 4, effect=True)
def _set_tile_code(comptime: Comptime, node: BuiltinCall, scope: Scope) -> Value:
    state = _layout(comptime, node, scope)
    place = _coordinates(comptime, node, scope)
    earlier = state.tiles.get(place)
    if earlier is not None:
        raise CslError(node.at, f"PE {place} has code already", note=(earlier.at, "first set"))
    session = comptime.session
    importer = session.parts_of(scope.instance.file)
    path = importer.path
    if len(node.arguments) > 2:
        argument = node.arguments[2]
        path = session.resolve(string_of(comptime, argument, scope), importer, argument.at)
    state.tiles[place] = Tile(path, fields_of(comptime, node, 3, scope, "parameters"), node.at)
    return VOID


@builtin("set_color_config", 4, effect=True)
def _set_color_config(comptime: Comptime, node: BuiltinCall, scope: Scope) -> Value:
    state = _layout(comptime, node, scope)
    place = _coordinates(comptime, node, scope)
    channel = _channel(comptime, node, 2, scope)
    _configure(state, node, channel, place)
    recording = comptime.route_calls.recording
    if recording is not None:
        recording.append(Configured(node, place, partial(_repeat, comptime, state, node, channel)))
    return VOID


def _configure(state: LayoutState, node: BuiltinCall, channel: Channel, place: tuple[int, int]) -> None:
    colors = state.channels.setdefault(place, {})
    if channel.color in colors:
        raise CslError(node.at, f"color {channel.color} of PE {place} is configured twice")
    colors[channel.color] = channel


def _repeat(
    comptime: Comptime, state: LayoutState, node: BuiltinCall, channel: Channel, place: tuple[int, int]
) -> None:
    _check_place(comptime, node, *place)
    _configure(state, node, channel, place)


def _channel(comptime: Comptime, node: BuiltinCall, first: int, scope: Scope) -> Channel:
    argument = node.arguments[first]
    color = routable(comptime.evaluate(argument, scope), f"@{node.name}", argument.at)
    described = node.arguments[first + 1]
    memo = comptime.route_calls
    key = memo.channel_key(described, color, scope)
    known = None if key is None else memo.channel(described, key)
    if known is None:
        known = channel_of(comptime.session.arch, color, comptime.evaluate(described, scope), node.at)
        if key is not None:
            memo.keep_channel(described, key, known)
    return known


@builtin("set_local_color_config", 2, effect=True)
def _set_local_color_config(comptime: Comptime, node: BuiltinCall, scope: Scope) -> Value:
    channel = _channel(comptime, node, 0, scope)
    channels = registry(node, scope).channels
    if any(other.color == channel.color for other in channels):
        raise CslError(node.at, f"color {channel.color} is configured twice")
    channels.append(channel)
    return VOID


@builtin("export_name", 2, 3, effect=True)
def _export_name(comptime: Comptime, node: BuiltinCall, scope: Scope) -> Value:
    state = _layout(comptime, node, scope)
    name = string_of(comptime, node.arguments[0], scope)
    arguments: tuple[tree.Expression, ...] = node.arguments
    type_node = arguments[1]
    kind = comptime.type_expression(type_node, scope)
    if name in state.exported:
        raise CslError(node.at, f"{name} is exported twice")
    is_mutable = False
    if isinstance(kind, t.FunctionType):
        if len(kind.parameters) > MAX_ARGUMENTS:
            raise CslError(node.at, f"an exported function has at most {MAX_ARGUMENTS} parameters")
    elif len(arguments) < 3:
        raise CslError(node.at, f"say whether {name} is mutable", "write true or false as third argument")
    if len(arguments) > 2:
        is_mutable = boolean_of(comptime.evaluate(arguments[2], scope), arguments[2].at)
    if isinstance(kind, t.ArrayType | t.StructType | t.EnumType) or t.is_comptime_only(kind):
        raise CslError(type_node.at, f"a {kind} cannot be exported", "export a pointer: [*]T")
    state.exported[name] = ExportedName(name, kind, is_mutable, node.at)
    return VOID
