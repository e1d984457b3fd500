"""Compile code regions into a folder: streams, paths, color numbers, a layout text, initial values."""

import re
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import numpy as np

from npuviz.base.errors import UsageError
from npuviz.targets.wavelet.host.layout.regions import Artifacts, CodeRegion, Place, Port, Stream
from npuviz.targets.wavelet.host.layout.routes import (
    OPPOSITE,
    STEPS,
    Color,
    ColorGroups,
    Position,
    Route,
)
from npuviz.targets.wavelet.load.compiled import save_wafer
from npuviz.targets.wavelet.wafer import PeProgram, Wafer

MARGIN = 1
"""Free rows and columns around everything, for paths and for the ends of streams."""
COLORS = 24
LAYOUT_FILE = "layout.csl"
EMPTY_FILE = "empty.csl"
STREAM_FILES = {True: "stream_in.csl", False: "stream_out.csl"}

_EMPTY = "// A PE that only routes.\n"
_STREAM = """// Passes words between the host and a port. `from` and `to` are colors.
param from: u16;
param to: u16;

const MANY: u16 = 0x7fff;
const input = @get_input_queue(2);
const output = @get_output_queue(2);
const source = @get_dsd(fabin_dsd, .{{ .extent = MANY, .input_queue = input }});
const target = @get_dsd(fabout_dsd, if (@is_arch("wse3")) .{{
  .extent = MANY, .output_queue = output
}} else .{{
  .extent = MANY, .output_queue = output, .fabric_color = @get_color(to)
}});

task forward() void {{
  @mov32(target, source, .{{ .async = true, .activate = forward }});
}}

const forward_id = @get_local_task_id({task});

comptime {{
  @bind_local_task(forward, forward_id);
  @activate(forward_id);
  @initialize_queue(input, .{{ .color = @get_color(from) }});
  @initialize_queue(output, if (@is_arch("wse3")) .{{ .color = @get_color(to) }} else .{{}});
}}
"""
_COLOR_PARAM = re.compile(r"^\s*param\s+(\w+)\s*:\s*color\b", re.MULTILINE)
STREAM_TASK = 28
"""Id of the local task of the forwarding programs: no color has this number."""


@dataclass
class _Plan:
    """A layout in which everything has its place.

    code     PE -> file and parameters
    routes   PE -> color -> positions
    streams  stream name -> (color on the host's side, PE)
    """

    columns: int
    rows: int
    code: dict[Place, tuple[str, dict[str, int | Color]]] = field(
        default_factory=dict[Place, tuple[str, dict[str, int | Color]]]
    )
    routes: dict[Place, dict[Color, tuple[Position, ...]]] = field(
        default_factory=dict[Place, dict[Color, tuple[Position, ...]]]
    )
    streams: dict[str, tuple[Color, Place]] = field(default_factory=dict[str, tuple[Color, Place]])
    groups: ColorGroups = field(default_factory=ColorGroups)
    blocked: set[Place] = field(default_factory=set[Place])
    """PEs of code regions: no path leads through them."""


def compile_layout(
    regions: Sequence[CodeRegion],
    connections: Sequence[tuple[Port, Port]],
    streams: Sequence[Stream],
    arch: str,
    folder: Path,
    import_paths: Sequence[Path],
) -> Artifacts:
    """Compile a layout into a folder. Raises NpuvizError, OSError."""
    from npuviz.targets.wavelet.csl.compiler import compile_program

    plan = _place(regions)
    for source, target in connections:
        plan.groups.join(source.color, target.color)
    for stream in streams:
        _add_stream(plan, stream)
    for source, target in connections:
        for first, last in zip(source.places, target.places, strict=True):
            _connect(plan, source, _at(source.region, first), target, _at(target.region, last))
    numbers = _numbers(plan)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in _texts(plan, numbers).items():
        (folder / name).write_text(text, encoding="utf-8")
    wafer = compile_program(
        folder / LAYOUT_FILE,
        arch,
        params={},
        colors={},
        # As with other programs, columns and rows of the host surround it.
        fabric=(plan.columns + 7, plan.rows + 2),
        import_paths=import_paths,
    )
    save_wafer(folder, _with_symbols(wafer, regions))
    ports = {name: (numbers[plan.groups.root(color)], place) for name, (color, place) in plan.streams.items()}
    return Artifacts(folder, (MARGIN, MARGIN), ports)


def _at(region: CodeRegion, place: Place) -> Place:
    assert region.origin is not None
    return region.origin[0] + place[0] + MARGIN, region.origin[1] + place[1] + MARGIN


def _place(regions: Sequence[CodeRegion]) -> _Plan:
    if not regions:
        raise UsageError("compile: the layout has no code region")
    for region in regions:
        if region.origin is None:
            region.origin = (0, 0)
        if not region.file.is_file():
            raise UsageError(f"{region.file}: no such file (code region {region.name})")
    ends = [_at(region, (region.width, region.height)) for region in regions]
    plan = _Plan(max(end[0] for end in ends) + MARGIN, max(end[1] for end in ends) + MARGIN)
    owner: dict[Place, str] = {}
    for region in regions:
        for y in range(region.height):
            for x in range(region.width):
                place = _at(region, (x, y))
                if place in owner:
                    raise UsageError(f"code regions {owner[place]} and {region.name} overlap at {place}")
                owner[place] = region.name
                plan.code[place] = (str(region.file.resolve()), dict(region.params.get((x, y), {})))
                plan.routes[place] = dict(region.routes.get((x, y), {}))
    plan.blocked = set(owner)
    return plan


def _add_stream(plan: _Plan, stream: Stream) -> None:
    """Put a forwarding program on the nearest free PE and lead a path between it and the port."""
    port = stream.port
    end = _at(port.region, port.places[0])
    place = _nearest_free(plan, _step(end, port.out_side))
    host, inner = Color(f"{stream.name} of the host"), Color(stream.name)
    plan.groups.join(port.color, inner)
    pair = (host, inner) if stream.is_input else (inner, host)
    plan.code[place] = (STREAM_FILES[stream.is_input], {"from": pair[0], "to": pair[1]})
    plan.streams[stream.name] = (host, place)
    color = plan.groups.root(inner)
    path = _path(plan, color, _step(end, port.out_side), place, inside=True)
    if stream.is_input:
        path.reverse()
        _lay(plan, color, path, Route.RAMP, port.in_side)
    else:
        _lay(plan, color, path, OPPOSITE[port.out_side], Route.RAMP)


def _nearest_free(plan: _Plan, start: Place) -> Place:
    queue, seen = deque([start]), {start}
    while queue:
        place = queue.popleft()
        if place not in plan.code and _is_inside(plan, place):
            return place
        for side in STEPS:
            near = _step(place, side)
            if _is_inside(plan, near) and near not in plan.blocked and near not in seen:
                seen.add(near)
                queue.append(near)
    raise UsageError("compile: no free PE for a stream of the host")


def _connect(plan: _Plan, source: Port, begin: Place, target: Port, end: Place) -> None:
    first, last = _step(begin, source.out_side), _step(end, target.out_side)
    if first == end and source.out_side is target.in_side:
        return
    color = plan.groups.root(source.color)
    path = _path(plan, color, first, last, inside=False)
    _lay(plan, color, path, OPPOSITE[source.out_side], target.in_side)


def _path(plan: _Plan, color: Color, first: Place, last: Place, inside: bool) -> list[Place]:
    """Return a shortest path over PEs that are in no region and that this color does not pass yet."""

    def is_free(place: Place) -> bool:
        used = any(plan.groups.root(other) is color for other in plan.routes.get(place, {}))
        return _is_inside(plan, place) and place not in plan.blocked and not used

    if not is_free(first):
        raise UsageError(f"color {color.name}: no way out of its port at {first}")
    before: dict[Place, Place] = {first: first}
    queue = deque([first])
    while queue:
        place = queue.popleft()
        if place == last:
            path = [place]
            while before[path[-1]] != path[-1]:
                path.append(before[path[-1]])
            return path[::-1]
        for side in STEPS:
            near = _step(place, side)
            if near not in before and is_free(near):
                before[near] = place
                queue.append(near)
    raise UsageError(f"color {color.name}: no free way from {first} to {last}")


def _lay(plan: _Plan, color: Color, path: Sequence[Place], entry: Route, leave: Route) -> None:
    """Set routes along a path; `entry` is the port on the first PE, `leave` that on the last."""
    for index, place in enumerate(path):
        came = entry if index == 0 else OPPOSITE[_side(path[index - 1], place)]
        goes = leave if index == len(path) - 1 else _side(place, path[index + 1])
        plan.routes.setdefault(place, {})[color] = (Position((came,), (goes,)),)


def _step(place: Place, side: Route) -> Place:
    return place[0] + STEPS[side][0], place[1] + STEPS[side][1]


def _side(place: Place, near: Place) -> Route:
    return next(side for side in STEPS if _step(place, side) == near)


def _is_inside(plan: _Plan, place: Place) -> bool:
    return 0 <= place[0] < plan.columns and 0 <= place[1] < plan.rows


def _numbers(plan: _Plan) -> dict[Color, int]:
    uses: dict[Color, set[Place]] = {}
    for place, (_, params) in plan.code.items():
        for value in params.values():
            if isinstance(value, Color):
                uses.setdefault(plan.groups.root(value), set()).add(place)
    for place, routes in plan.routes.items():
        for color in routes:
            uses.setdefault(plan.groups.root(color), set()).add(place)
    return plan.groups.numbers(uses, COLORS)


def _texts(plan: _Plan, numbers: Mapping[Color, int]) -> dict[str, str]:
    """Return the layout text and the programs of PEs that no region owns, by file name."""
    colors_of = cache(_color_params)
    lines = ["// Written by npuviz from an SdkLayout.", "layout {"]
    lines.append(f"  @set_rectangle({plan.columns}, {plan.rows});")
    for y in range(plan.rows):
        for x in range(plan.columns):
            file, params = plan.code.get((x, y), (EMPTY_FILE, {}))
            given: list[str] = []
            for name, value in params.items():
                number = numbers[plan.groups.root(value)] if isinstance(value, Color) else value
                given.append(f".{name} = {f'@get_color({number})' if name in colors_of(file) else number}")
            values = ", ".join(given)
            lines.append(f'  @set_tile_code({x}, {y}, "{file}", .{{{values}}});')
    for (x, y), routes in plan.routes.items():
        for color, positions in routes.items():
            number = numbers[plan.groups.root(color)]
            text = _config(positions)
            lines.append(f"  @set_color_config({x}, {y}, @get_color({number}), {text});")
    lines.append("}")
    stream = _STREAM.format(task=STREAM_TASK)
    return {
        LAYOUT_FILE: "\n".join(lines) + "\n",
        EMPTY_FILE: _EMPTY,
        STREAM_FILES[True]: stream,
        STREAM_FILES[False]: stream,
    }


def _color_params(file: str) -> frozenset[str]:
    """Return the parameters of a program that are colors (SDK 1.4); other programs take a color's number."""
    path = Path(file)
    text = path.read_text("utf-8", "replace") if path.is_absolute() else ""
    return frozenset(_COLOR_PARAM.findall(text))


def _config(positions: Sequence[Position]) -> str:
    first = positions[0]
    routes = f".routes = .{{ .rx = {_tuple(first.inputs)}, .tx = {_tuple(first.outputs)} }}"
    parts: list[str] = []
    for index, position in enumerate(positions[1:], 1):
        halves: list[str] = []
        if position.inputs != first.inputs:
            halves.append(f".rx = {position.inputs[0].value}")
        if position.outputs != first.outputs or not halves:
            halves.append(f".tx = {_tuple(position.outputs)}")
        parts.append(f".pos{index} = .{{ {', '.join(halves)} }}")
    return f".{{ {routes}, .switches = .{{ {', '.join(parts)} }} }}" if parts else f".{{ {routes} }}"


def _tuple(routes: Iterable[Route]) -> str:
    return f".{{{', '.join(route.value for route in routes)}}}"


def _with_symbols(wafer: Wafer, regions: Sequence[CodeRegion]) -> Wafer:
    """Return the wafer with the initial values that the host gave; each PE with its own data gets its own
    program."""
    programs = list(wafer.programs)
    program_of = wafer.program_of.copy()
    for region in regions:
        for name, matrix, width, height in region.symbols:
            columns, rows = width // region.width, height // region.height
            for y in range(region.height):
                for x in range(region.width):
                    column, row = _at(region, (x, y))
                    block = matrix[y * rows : (y + 1) * rows, x * columns : (x + 1) * columns]
                    programs.append(_patched(programs[int(program_of[row, column])], name, block))
                    program_of[row, column] = len(programs) - 1
    return replace(wafer, programs=tuple(programs), program_of=program_of)


def _patched(program: PeProgram, name: str, block: np.ndarray) -> PeProgram:
    symbol = next((symbol for symbol in program.symbols if symbol.name == name), None)
    if symbol is None:
        raise UsageError(f"{program.name}: has no variable {name}")
    data = np.ascontiguousarray(block).astype(np.dtype(symbol.dtype)).tobytes()
    if len(data) != symbol.size_bytes:
        raise UsageError(f"{program.name}: {name} takes {symbol.size_bytes} bytes, not {len(data)}")
    image = np.zeros(max(len(program.image), symbol.address + len(data)), np.uint8)
    image[: len(program.image)] = program.image
    image[symbol.address : symbol.address + len(data)] = np.frombuffer(data, np.uint8)
    return replace(program, image=image)
