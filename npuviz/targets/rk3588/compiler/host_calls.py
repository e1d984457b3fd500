"""Add the calls of the Host, with copies that make rows of the NPU's cubes if these copies are faster."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from npuviz.base.errors import DoesNotFit, FormatError
from npuviz.onnx.errors import CannotLower
from npuviz.program.program import HostReason
from npuviz.targets.rk3588.compiler.builder import Builder
from npuviz.targets.rk3588.compiler.exchange import Copy, emit_copy, plan_copy
from npuviz.targets.rk3588.compiler.strides import rows_bytes, rows_shape
from npuviz.targets.rk3588.tables import Buffer
from npuviz.targets.rk3588.task.host_cost import conversion_ns


def run_on_host(
    b: Builder, calls: Sequence[tuple[int, HostReason | None]], also_read: Sequence[int] = ()
) -> None:
    """Add graph nodes that the Host runs one after the other, with copies for all of them before and after.

    calls      nodes and why
    also_read  tensors that the Host reads after them
    """
    made: set[int] = set()
    for node, _ in calls:
        found = b.graph.nodes[node]
        for tensor in found.inputs:
            if tensor >= 0 and tensor not in made:
                _read(b, tensor, node)
        made |= set(found.outputs)
    for tensor in also_read:
        if tensor not in made:
            _read(b, tensor, -1)
    copies: list[tuple[int, Copy]] = []
    for node, reason in calls:
        found = b.graph.nodes[node]
        reads = [_read(b, tensor, node) for tensor in dict.fromkeys(found.inputs) if tensor >= 0]
        writes = [_written(b, tensor) for tensor in found.outputs if tensor >= 0]
        b.host(node, reason, (tuple(dict.fromkeys(reads)), tuple(number for number, _ in writes)))
        copies += [(node, copy) for _, copy in writes if copy is not None]
    finish_copies(b, copies)


def take_inputs(b: Builder, tensors: Sequence[int]) -> list[tuple[int, Copy]]:
    """Add the calls that bring graph inputs. Return the copies that make cubes of their rows, for
    `finish_copies`: operators of the Host that come next read the rows, and need no new call before the NPU
    starts."""
    copies: list[tuple[int, Copy]] = []
    for tensor in tensors:
        number, copy = _written(b, tensor)
        b.convert(f"input {b.graph.tensors[tensor].name}", (), (number,))
        copies += [(-1, copy)] if copy is not None else []
    return copies


def give_outputs(b: Builder, places: Mapping[int, int]) -> None:
    """Add the calls that write graph outputs to buffers, after the copies for all of them."""
    taken = {tensor: _read(b, tensor, -1) for tensor in places}
    for tensor, place in places.items():
        b.convert(f"output {b.graph.tensors[tensor].name}", (taken[tensor],), (place,))


def finish_copies(b: Builder, copies: Sequence[tuple[int, Copy]]) -> None:
    """Add the tasks of copies for nodes (-1: for none)."""
    for node, copy in copies:
        emit_copy(b, node, copy)


def _read(b: Builder, tensor: int, node: int) -> int:
    """Return the buffer from which the Host reads a tensor; rows are written first, unless they exist."""
    number = b.number_of(tensor)
    home = b.buffer(number)
    held = b.rows.get(tensor)
    if held is not None:
        return held
    rows = _rows(home)
    copy = _faster(b, home, rows) if rows is not None else None
    if rows is None or copy is None:
        return number
    placed, rows = b.place_rows(tensor, rows)
    b.begin_layer()
    emit_copy(b, node, replace(copy, ends=(home, rows)))
    return placed


def _written(b: Builder, tensor: int) -> tuple[int, Copy | None]:
    """Return the buffer into which the Host writes a tensor, and the copy that follows, None without one."""
    number = b.number_of(tensor)
    home = b.buffer(number)
    rows = _rows(home)
    copy = _faster(b, rows, home) if rows is not None else None
    if rows is None or copy is None:
        return number, None
    placed, rows = b.place_rows(tensor, rows)
    return placed, replace(copy, ends=(rows, home))


def _rows(home: Buffer) -> Buffer | None:
    """Return a cube's tensor as a buffer of rows, without a place; None for other layouts."""
    if home.layout != "feature":
        return None
    shape = rows_shape(home.shape)
    size = max(1, rows_bytes(shape, home.dtype))
    return replace(home, name=f"{home.name} in rows", address=0, size_bytes=size, layout="rows", shape=shape)


def conversion_cycles(b: Builder, tensor: int) -> tuple[int, bool]:
    """Return the cycles in which a tensor comes from the NPU's layout to rows that the Host reads, in the
    faster way, and whether that is a copy by the NPU."""
    home = b.home(tensor)
    rows = _rows(home)
    if rows is None:
        return 0, False
    copy = _faster(b, home, rows)
    if copy is not None:
        return int(copy.cycles(b)), True
    return b.spec.to_cycles(conversion_ns(b.spec, [home])), False


def _faster(b: Builder, source: Buffer, target: Buffer) -> Copy | None:
    """Return a copy by the NPU, None if there is none or the Host converts faster."""
    try:
        copy = plan_copy(b.spec, source, target)
    except (CannotLower, DoesNotFit, FormatError, ValueError):
        return None
    return copy if copy.cycles(b) < b.spec.to_cycles(conversion_ns(b.spec, [source, target])) else None
