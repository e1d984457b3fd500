"""Turn the struct of `@set_color_config` into router masks, and check all routes of a program."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from npuviz.targets.wavelet.csl.comptime import types as t
from npuviz.targets.wavelet.csl.comptime.builtins.values import check_range
from npuviz.targets.wavelet.csl.comptime.values import Scalar, StructValue, Value, boolean_of, integer_of
from npuviz.targets.wavelet.csl.syntax.errors import CslError, similar
from npuviz.targets.wavelet.csl.syntax.tree import Span
from npuviz.targets.wavelet.kernels import isa
from npuviz.targets.wavelet.wafer import Channel, SourcePlace

TRANSMIT_SHIFT = 5
"""In a route mask: receive bits 0-4, transmit bits 5-9 (as the `<directions>` library builds them)."""
_RECEIVE = (1 << TRANSMIT_SHIFT) - 1
POP_MODES = {
    "no_pop": isa.POP_NEVER,
    "always_pop": isa.POP_ALWAYS,
    "pop_on_advance": isa.POP_ON_ADVANCE,
    "pop_on_advance_nop": isa.POP_ON_ADVANCE_NOP,
}
FILTER_KINDS = {
    "counter": isa.FILTER_COUNTER,
    "sparse_counter": isa.FILTER_SPARSE_COUNTER,
    "range": isa.FILTER_RANGE,
}
SWITCH_COLORS_WSE3 = frozenset((*range(10), 12, 13, 16, 17, 20, 21))
"""Colors that can have switches on WSE-3 [BLT]."""
_FILTER_FIELDS = (
    *("count_data", "count_control", "init_counter", "limit1", "limit2", "max_counter"),
    *("filter_control", "min_idx", "max_idx", "fast_mode"),
)
_STEPS = {
    isa.PORT_NORTH: (0, -1, isa.PORT_SOUTH),
    isa.PORT_EAST: (1, 0, isa.PORT_WEST),
    isa.PORT_SOUTH: (0, 1, isa.PORT_NORTH),
    isa.PORT_WEST: (-1, 0, isa.PORT_EAST),
}
PORT_NAMES = ("RAMP", "NORTH", "EAST", "SOUTH", "WEST")


def channel_of(arch: str, color: int, value: Value, at: Span) -> Channel:
    """Return the channel that a configuration struct describes. Raises CslError."""
    config = _struct(value, ("routes", "switches", "filter", "teardown"), "a color configuration", at)
    routes = config.get("routes")
    if routes is None:
        raise CslError(at, "a color configuration needs .routes", "it may be empty: .{}")
    receive, transmit, swap, old_pop = _routes(routes, at)
    switches = _switches(config.get("switches"), (receive, transmit), arch, at)
    positions, position, ring, pop = switches
    has_switches = len(positions) > 1
    if has_switches and arch == "wse3" and color not in SWITCH_COLORS_WSE3:
        raise CslError(
            at, f"color {color} cannot have switches on WSE-3", "use 0 to 9, 12, 13, 16, 17, 20 or 21"
        )
    if arch == "wse3" and receive.bit_count() > 1:
        raise CslError(at, f"color {color} receives from {names(receive)}: WSE-3 allows one direction")
    if swap and arch == "wse3":
        raise CslError(at, "WSE-3 has no color swap")
    return Channel(
        color,
        positions,
        position,
        ring,
        pop or old_pop,
        boolean_of(config["teardown"], at) if "teardown" in config else False,
        _filter(config["filter"], at) if "filter" in config else None,
        swap,
        SourcePlace(at.file, at.line, at.column),
    )


def names(mask: int) -> str:
    """Return the directions of a mask as text."""
    return ", ".join(name for port, name in enumerate(PORT_NAMES) if mask >> port & 1) or "nowhere"


def _struct(value: Value, allowed: tuple[str, ...], what: str, at: Span) -> Mapping[str, Value]:
    if not isinstance(value, StructValue):
        raise CslError(at, f"{what} is written as .{{..}}, found {value.type}")
    for name in value.fields:
        if name not in allowed:
            raise CslError(at, f"{what} has no field .{name}", similar(name, allowed) or ", ".join(allowed))
    return value.fields


def directions(value: Value, at: Span) -> int:
    """Return a mask of one direction or a tuple (or array) of directions."""
    if isinstance(value, Scalar) and value.kind is t.DIRECTION:
        return 1 << value.integer
    items = list(value.fields.values()) if isinstance(value, StructValue) else _elements(value, at)
    mask = 0
    for item in items:
        if not isinstance(item, Scalar) or item.kind is not t.DIRECTION:
            raise CslError(at, f"expected RAMP, NORTH, EAST, SOUTH or WEST, found {item.type}")
        mask |= 1 << item.integer
    return mask


def _elements(value: Value, at: Span) -> list[Value]:
    element = getattr(value, "element", None)
    if isinstance(value.type, t.ArrayType) and element is not None:
        return [element(index) for index in range(value.type.count)]
    raise CslError(at, f"expected a direction or a tuple of directions, found {value.type}")


def _is_mask(value: Value) -> bool:
    return isinstance(value, Scalar) and isinstance(value.kind, t.IntegerType)


def _routes(value: Value, at: Span) -> tuple[int, int, int, int]:
    """Return (receive mask, transmit mask, swap bits, pop mode of the old form)."""
    if _is_mask(value):
        mask = check_range(integer_of(value, at), 0, (1 << 2 * TRANSMIT_SHIFT) - 1, "route mask", at)
        return mask & _RECEIVE, mask >> TRANSMIT_SHIFT, 0, 0
    fields = _struct(value, ("rx", "tx", "color_swap_x", "color_swap_y", "pop_mode"), ".routes", at)
    receive = directions(fields["rx"], at) if "rx" in fields else 0
    transmit = directions(fields["tx"], at) if "tx" in fields else 0
    swap = 0
    for bit, name in enumerate(("color_swap_x", "color_swap_y")):
        if name in fields and boolean_of(fields[name], at):
            swap |= 1 << bit
    pop = _pop(fields["pop_mode"], at) if "pop_mode" in fields else 0
    return receive, transmit, swap, pop


def _pop(value: Value, at: Span) -> int:
    given = _struct(value, (*POP_MODES, *map(str.upper, POP_MODES)), ".pop_mode", at)
    for name, inner in given.items():
        if boolean_of(inner, at):
            return POP_MODES[name.lower()]
    return isa.POP_NEVER


def _switches(
    value: Value | None, routes: tuple[int, int], arch: str, at: Span
) -> tuple[tuple[tuple[int, int] | None, ...], int, bool, int]:
    """Return (positions, current position, ring mode, pop mode)."""
    receive, transmit = routes
    if value is None:
        return (routes,), 0, False, isa.POP_NEVER
    allowed = ("pos1", "pos2", "pos3", "current_switch_pos", "ring_mode", "pop_mode")
    fields = _struct(value, allowed, ".switches", at)
    positions: list[tuple[int, int] | None] = [routes]
    for name in ("pos1", "pos2", "pos3"):
        given = _position(fields[name], name, arch, at) if name in fields else None
        found = None if given is None else (given[0] or receive, given[1] or transmit)
        positions.append(found)
        # The half that a position does not give is that of the position before it: cholesky and
        # 25-pt-stencil rely on it (EX), and topic-06 does not tell.
        receive, transmit = found or (receive, transmit)
    current = 0
    if "current_switch_pos" in fields:
        current = check_range(integer_of(fields["current_switch_pos"], at), 0, 3, "switch position", at)
        if positions[current] is None:
            raise CslError(at, f"the switch starts at position {current}, which is not given")
    ring = "ring_mode" in fields and boolean_of(fields["ring_mode"], at)
    pop = _pop(fields["pop_mode"], at) if "pop_mode" in fields else isa.POP_NEVER
    return tuple(positions), current, ring, pop


def _position(value: Value, name: str, arch: str, at: Span) -> tuple[int, int] | None:
    """Return (receive mask, transmit mask) that a switch position gives, 0 for a half that it leaves out."""
    if _is_mask(value):
        mask = integer_of(value, at)
        new_receive, new_transmit = mask & _RECEIVE, mask >> TRANSMIT_SHIFT
    else:
        fields = _struct(value, ("rx", "tx", "invalid"), f".{name}", at)
        if "invalid" in fields and boolean_of(fields["invalid"], at):
            return None
        if "rx" in fields and "tx" in fields and arch == "wse2":
            raise CslError(at, f".{name} gives .rx or .tx, not both, on WSE-2")
        new_receive = directions(fields["rx"], at) if "rx" in fields else 0
        new_transmit = directions(fields["tx"], at) if "tx" in fields else 0
        if new_receive.bit_count() > 1:
            raise CslError(at, f".{name} has one .rx direction, found {names(new_receive)}")
    if not new_receive and not new_transmit:
        return None
    return new_receive, new_transmit


def _filter(value: Value, at: Span) -> dict[str, int]:
    fields = dict(_struct(value, ("kind", *_FILTER_FIELDS), ".filter", at))
    kind = fields.pop("kind", None)
    if kind is None:
        raise CslError(at, "a filter needs a .kind", "as in .kind = .{ .counter = true }")
    chosen = [
        name
        for name, inner in _struct(kind, tuple(FILTER_KINDS), ".kind of a filter", at).items()
        if boolean_of(inner, at)
    ]
    if len(chosen) != 1:
        raise CslError(at, "the .kind of a filter is one of counter, sparse_counter and range")
    found = {"kind": FILTER_KINDS[chosen[0]]}
    for name, inner in fields.items():
        if name == "fast_mode":  # written by one published program, not documented: no effect here
            continue
        if isinstance(inner, Scalar) and inner.kind is t.BOOL:
            found[name] = int(inner.number)
        else:
            found[name] = check_range(integer_of(inner, at), 0, 0xFFFF, f".{name}", at)
    if chosen[0] == "range" and not {"min_idx", "max_idx"} <= found.keys():
        raise CslError(at, "a range filter needs .min_idx and .max_idx")
    return found


# ---- checks on all routes of a program ----


def _ever(channel: Channel) -> tuple[int, int]:
    """Return (receive mask, transmit mask) over all switch positions."""
    receive = transmit = 0
    for position in channel.positions:
        if position is not None:
            receive |= position[0]
            transmit |= position[1]
    return receive, transmit


def check_routes(
    channels: Mapping[tuple[int, int], Iterable[Channel]], columns: int, rows: int
) -> list[tuple[SourcePlace | None, str]]:
    """Return warnings about routes that end in nothing and arrivals from several neighbours, once per
    place."""
    table = {
        (x, y, channel.color): channel for (x, y), configured in channels.items() for channel in configured
    }
    found: dict[tuple[SourcePlace | None, str], str] = {}
    for (x, y, color), channel in table.items():
        receive, transmit = _ever(channel)
        arrivals: list[str] = []
        for port, (dx, dy, opposite) in _STEPS.items():
            neighbour = table.get((x + dx, y + dy, color))
            inside = 0 <= x + dx < columns and 0 <= y + dy < rows
            if inside and transmit >> port & 1 and not (neighbour and _ever(neighbour)[0] >> opposite & 1):
                text = f"color {color} of PE ({x}, {y}) goes {PORT_NAMES[port]}, where no route takes it"
                found.setdefault((channel.place, "dangles"), text)
            if receive >> port & 1 and neighbour and _ever(neighbour)[1] >> opposite & 1:
                arrivals.append(PORT_NAMES[port])
        base = channel.positions[0]
        if len(arrivals) > 1 and base is not None and base[0].bit_count() > 1:
            text = f"color {color} arrives at PE ({x}, {y}) from {' and '.join(arrivals)}: never in one cycle"
            found.setdefault((channel.place, "fights"), text)
    return [(place, text) for (place, _), text in found.items()]
