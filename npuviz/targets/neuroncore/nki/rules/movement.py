"""What the documentation says about operands of products and DMAs, beyond the kinds of operands.py.

# Ref: aws-neuron-sdk 81ce03ae, nki/api/nki/isa/__init__.py: nc_matmul, nc_transpose, dma_copy, dma_transpose
"""

from typing import Any

from npuviz.targets.neuroncore.nki.record.errors import KernelError
from npuviz.targets.neuroncore.nki.record.machine_in_use import spec_in_use
from npuviz.targets.neuroncore.nki.record.numbers import number
from npuviz.targets.neuroncore.nki.record.recording import current
from npuviz.targets.neuroncore.nki.record.tensors import PSUM, SBUF, Tensor
from npuviz.targets.neuroncore.nki.rules.operands import (
    ENGINE_NAMES,
    FLOAT8,
    NAME,
    SCALAR,
    SYNC,
    TENSOR,
    Given,
    Rule,
    elements,
    from_version,
    lies_in,
    listed,
    of_types,
    same_type,
    type_name,
    warn,
    wrong,
)

_HARDWARE_DGE = 2
_SKIP = 1
_MODES = ("unknown", "swdge", "hwdge", "none")

# --- Tensor engine -----------------------------------------------------------------------------------


def product_types(call: str, given: Given) -> None:
    """Two operands of a product go together, and dst is what PSUM sums up in."""
    a, b, dst = (given.get(each) for each in ("stationary", "moving", "dst"))
    if not (isinstance(a, Tensor) and isinstance(b, Tensor) and isinstance(dst, Tensor)):
        return
    names = {type_name(a), type_name(b)}
    if "float32" in names and len(names) > 1:
        raise wrong(
            call, f"stationary {a!r} and moving {b!r}: float32 goes with float32 only; cast one of them"
        )
    version = spec_in_use().version
    if "float8_e4m3fn" in names and version < 4:
        raise wrong(call, f"stationary {a!r} and moving {b!r}: float8_e4m3fn needs trn3; use float8_e4m3")
    if names == {"float8_e4m3", "float8_e4m3fn"}:
        raise wrong(
            call, f"stationary {a!r} and moving {b!r}: float8_e4m3 and float8_e4m3fn do not go together"
        )
    sums = ("float32",) if version < 4 else ("float32", "bfloat16")
    if given.get("is_transpose"):
        sums = (*sums, type_name(a), type_name(b))
    if type_name(dst) not in sums:
        raise wrong(call, f"dst {dst!r} must be {listed(sums)} on {spec_in_use().arch}")


def tiles_of_array(call: str, given: Given) -> None:
    """tile_position and tile_size: both or none, a part of the array that holds the stationary tile."""
    position, size = (tuple(int(k) for k in given.get(each) or ()) for each in ("tile_position", "tile_size"))
    if not position and not size:
        return
    if len(position) != 2 or len(size) != 2:
        raise wrong(
            call,
            f"tile_position={position} and tile_size={size}: give both, as (start_row, start_column) and "
            "(row_size, column_size), or none",
        )
    sizes = (64, 128) if spec_in_use().version < 3 else (32, 64, 128)
    for what, start, each in zip(("row", "column"), position, size, strict=True):
        if each not in sizes:
            raise wrong(
                call, f"tile_size={size}: a {what}_size of {each} must be {listed([str(s) for s in sizes])}"
            )
        if start % each or not 0 <= start <= 128 - each:
            raise wrong(
                call,
                f"tile_position={position}: start_{what} must be a multiple of {each}, up to {128 - each}",
            )
    _fits_array(call, given, size)


def _fits_array(call: str, given: Given, size: tuple[int, ...]) -> None:
    """The stationary tile is no larger than the part of the array."""
    stationary = given.get("stationary")
    is_double = _is_double_row(given)
    if is_double and size[1] != 128:
        raise wrong(call, f"tile_size={size}: double_row does not go together with column tiling")
    if isinstance(stationary, Tensor):
        columns = elements(stationary) // (2 if is_double else 1)
        if stationary.shape[0] > size[0] or columns > size[1]:
            raise wrong(call, f"stationary {stationary!r} is larger than tile_size={size}")


def _is_double_row(given: Given) -> bool:
    mode = given.get("perf_mode")
    return str(getattr(mode, "value", mode) or "none").startswith("double_row")


def double_row_types(call: str, given: Given) -> None:
    """double_row multiplies 8-bit floats."""
    if _is_double_row(given):
        of_types(FLOAT8, "stationary", "moving")(f"{call} with double_row", given)


def turned(call: str, given: Given) -> None:
    """PE turns SBUF to PSUM."""
    engine, dst, data = (given.get(each) for each in ("engine", "dst", "data"))
    if int(engine or 0) == TENSOR and isinstance(dst, Tensor) and isinstance(data, Tensor):
        lies_in((PSUM,), "dst")(f"{call} on the tensor engine", given)
        lies_in((SBUF,), "data")(f"{call} on the tensor engine", given)


def microscaled(call: str, given: Given) -> None:
    """Shapes of operands in four packed values."""
    a, b = given.get("stationary"), given.get("moving")
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        if a.shape[0] % 32:
            raise wrong(call, f"stationary {a!r}: partitions must be a multiple of 32")
        if elements(a) % 2:
            raise wrong(call, f"stationary {a!r}: elements in a partition must be even")


# --- DMA ---------------------------------------------------------------------------------------------


def priority(call: str, given: Given) -> None:
    """Levels of DMA traffic."""
    level = given.get("priority")
    if level is None:
        return
    if spec_in_use().version < 4:
        raise wrong(call, f"priority={level!r} needs NeuronCore-v4 (trn3), this one is {spec_in_use().arch}")
    if number(level) not in (0, 1, 2, 3):
        raise wrong(call, f"priority={level!r} must be 0 (first) to 3")


def descriptors_by_hardware(call: str, given: Given) -> None:
    """What the hardware's descriptor engine can do."""
    engine, mode = int(given.get("engine") or 0), int(given.get("dge_mode") or 0)
    if engine and engine not in (SCALAR, SYNC):
        raise wrong(call, f"engine {ENGINE_NAMES[engine]}: sync or scalar trigger a DMA")
    if engine and mode != _HARDWARE_DGE:
        found = f"dge_mode.{_MODES[mode]}" if 0 <= mode < len(_MODES) else f"dge_mode={mode}"
        raise wrong(
            call,
            f"engine={ENGINE_NAMES[engine]} with {found}: give dge_mode=nisa.dge_mode.hwdge, or no engine",
        )
    if mode != _HARDWARE_DGE:
        return
    from_version(3)(f"{call} with dge_mode.hwdge", given)
    if call == "dma_transpose":
        _turned_by_hardware(call, given)
        return
    same_type("dst", "src")(f"{call} with dge_mode.hwdge", given)
    for what in ("dst", "src"):
        tensor = given.get(what)
        if isinstance(tensor, Tensor) and tensor.row_index is not None:
            raise wrong(call, f"{what} {tensor!r} by vector_offset: rows by index need dge_mode.swdge")


def skipped_by_index(*operands: str) -> Rule:
    """oob_mode.skip skips what an index names: one of these operands has one."""

    def check(call: str, given: Given) -> None:
        if int(given.get("oob_mode") or 0) != _SKIP or current().has_offsets:
            return
        tensors: list[Any] = []
        for what in operands:
            found = given.get(what)
            tensors += found if isinstance(found, list | tuple) else [found]
        if not any(isinstance(each, Tensor) and each.row_index is not None for each in tensors):
            raise wrong(
                call,
                f"oob_mode.skip, and none of {listed(operands)} has an index: take "
                ".ap(..., vector_offset=tile) or scalar_offset=, or leave oob_mode out",
            )

    return check


def skips_nothing(call: str, given: Given) -> None:
    """dma_copy without an index has nothing to skip, which the documentation does not forbid."""
    try:
        skipped_by_index("dst", "src")(call, given)
    except KernelError as error:
        warn(call, str(error).removeprefix(f"{NAME}: {call}: "))


def _turned_by_hardware(call: str, given: Given) -> None:
    src = given.get("src")
    if not isinstance(src, Tensor):
        return
    if src.itemsize != 2:
        raise wrong(call, f"src {src!r}: dge_mode.hwdge turns elements of 2 bytes")
    rows = src.shape[0]
    is_right = rows == 16 if src.ndim == 2 else rows in (1, 2, 4, 8, 16) and rows * src.shape[-2] % 16 == 0
    if not is_right or src.shape[-1] > 128:
        raise wrong(
            call,
            f"src {src!r}: dge_mode.hwdge needs 16 rows of a 2-D tensor (else 1, 2, 4, 8 or 16, "
            "times the last dimension but one a multiple of 16), at most 128 elements in the last one",
        )


def turned_shape(call: str, given: Given) -> None:
    """dst has the shape of the transposed src."""
    dst, src, axes = (given.get(each) for each in ("dst", "src", "axes"))
    order = tuple(axes) if axes else {2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)}.get(getattr(src, "ndim", 0))
    if isinstance(dst, Tensor) and isinstance(src, Tensor) and order and len(order) == src.ndim:
        shape = [src.shape[axis] for axis in order if -src.ndim <= axis < src.ndim]
        if src.row_index is None and list(dst.shape) != shape:
            raise wrong(call, f"dst {dst!r} must be {shape}, which is src {src!r} with axes {order}")
