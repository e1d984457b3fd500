"""nki.language: what both generations have, on the recording of the kernel that runs."""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from npuviz.base.names import echo
from npuviz.targets.neuroncore.nki.calls import movement as move
from npuviz.targets.neuroncore.nki.calls import patterns
from npuviz.targets.neuroncore.nki.calls.operands import refuse_unknown
from npuviz.targets.neuroncore.nki.calls.ordering import no_reorder as no_reorder
from npuviz.targets.neuroncore.nki.record.block_tensors import BlockTensor, Tiles
from npuviz.targets.neuroncore.nki.record.element_types import FLOAT32, NAMES, PACKED, dtype_of, is_float
from npuviz.targets.neuroncore.nki.record.errors import KernelError
from npuviz.targets.neuroncore.nki.record.index import Grid, Index, MultiGrid, arange
from npuviz.targets.neuroncore.nki.record.loops import Turns, turns
from npuviz.targets.neuroncore.nki.record.numbers import needed_number
from npuviz.targets.neuroncore.nki.record.recording import current
from npuviz.targets.neuroncore.nki.record.scopes import shared_memory_text
from npuviz.targets.neuroncore.nki.record.tensors import HBM, PSUM, SBUF, Tensor, box_of
from npuviz.targets.neuroncore.nki.record.variable_names import assigned_name, users_frame

float32 = NAMES["float32"]
float16 = NAMES["float16"]
bfloat16 = NAMES["bfloat16"]
float8_e4m3 = NAMES["float8_e4m3"]
float8_e4m3fn = NAMES["float8_e4m3fn"]
float8_e5m2 = NAMES["float8_e5m2"]
float8_e4m3fn_x4, float8_e5m2_x4, float4_e2m1fn_x4, float8_e8m0fnu = (each for each, _ in PACKED.values())
int8 = NAMES["int8"]
int16 = NAMES["int16"]
int32 = NAMES["int32"]
uint8 = NAMES["uint8"]
uint16 = NAMES["uint16"]
uint32 = NAMES["uint32"]
bool_ = NAMES["bool"]
tfloat32 = FLOAT32
mgrid = MultiGrid()
fp32 = SimpleNamespace(min=float(np.finfo(np.float32).min), max=float(np.finfo(np.float32).max))
bfp16 = SimpleNamespace(min=float(np.float32(-3.3895313892515355e38)))


class Buffer(str):
    """A memory that kernels name.

    is_shared  whether all instances of a grid see the same memory
    is_placed  whether the kernel says where in it
    """

    is_shared = is_placed = False


sbuf, psum, hbm = Buffer(SBUF), Buffer(PSUM), Buffer(HBM)
private_hbm, shared_hbm = hbm, Buffer(HBM)
shared_hbm.is_shared = True


class MemoryRegion:
    """The memories by name."""

    sbuf, psum, private_hbm, shared_hbm = sbuf, psum, private_hbm, shared_hbm


DType = np.dtype


def is_hbm(buffer: Any) -> bool:
    """Whether a buffer is device memory."""
    return _space(buffer) == HBM


def is_psum(buffer: Any) -> bool:
    """Whether a buffer is PSUM."""
    return _space(buffer) == PSUM


def is_sbuf(buffer: Any) -> bool:
    """Whether a buffer is SBUF."""
    return _space(buffer) == SBUF


def is_on_chip(buffer: Any) -> bool:
    """Whether a buffer is SBUF or PSUM."""
    return not is_hbm(buffer)


class ParDim(int):
    """The size of the partition dimension, where block dimensions come before it."""


def par_dim(size: int) -> ParDim:
    """Marks the partition dimension of a shape."""
    return ParDim(size)


class TileSize:
    """Limits of tiles."""

    pmax = 128
    psum_fmax = 512
    gemm_stationary_fmax = 128
    gemm_moving_fmax = 512
    bn_stats_fmax = 512
    psum_min_align = 4
    sbuf_min_align = 1
    psum_num_banks = 8
    psum_bank_fmax = 512
    psum_bank_fmax_bytes = 2048

    @property
    def total_available_sbuf_size(self) -> int:
        """Bytes of a partition that kernels may use."""
        return _sbuf_bytes()

    sbuf_size_bytes = sbuf_fmax_bytes = sbuf_fmax = total_available_sbuf_size


COMPILER_BYTES = 16 * 1024
"""Of each SBUF partition that the compiler keeps. Ref: SDK226, sbuf.alloc; KLR Trace.lean (180,224, 212,984
and 245,752 bytes are left on trn1, trn2 and trn3)."""


def _sbuf_bytes() -> int:
    from npuviz.targets.neuroncore.nki.record.machine_in_use import spec_in_use

    spec = spec_in_use()
    kept = spec.sbuf_reserved_bytes if spec.version > 2 else 0
    return spec.sbuf_partition_bytes - COMPILER_BYTES - kept


tile_size = TileSize()


class constants:
    """nl.constants."""

    @staticmethod
    def sizeinbytes(dtype: object) -> int:
        """Bytes of an element."""
        return dtype_of(dtype).itemsize


# --- loops and programs ------------------------------------------------------------------------------


def affine_range(*bounds: int, **named: Any) -> Turns:
    """Turns that do not depend on each other; in generation 1 what they do in Python happens once."""
    return Turns(_bounds(bounds, named), "affine_range")


def sequential_range(*bounds: int, **named: Any) -> Turns:
    """Turns in order; in generation 1 what they do in Python happens once."""
    return Turns(_bounds(bounds, named), "sequential_range")


def static_range(*bounds: int, **named: Any) -> Iterator[int]:
    """Turns in order, each of which Python runs."""
    return turns(_bounds(bounds, named))


def _bounds(bounds: Sequence[int], named: Mapping[str, Any]) -> range:
    """The range of a loop: start, stop and step in order or by name; other keywords are hints."""
    if not bounds or "stop" in named:
        start = bounds[0] if bounds else named.get("start", 0)
        return range(start, named["stop"], named.get("step", 1))
    return range(*bounds, *([named["step"]] if "step" in named and len(bounds) == 2 else []))


def ds(start: Any, size: int) -> Any:
    """`size` elements from `start`, which may be an element of the chip."""
    if isinstance(start, Tensor):
        start = start.known_integer()
    return slice(start, start + size) if not isinstance(start, Index) else start + arange(size)


def program_id(axis: int = 0) -> int:
    """Which instance of the grid this is."""
    program = current().program
    return program[axis] if -len(program) <= axis < len(program) else 0


def num_programs(axes: Any = None) -> Any:
    """Instances of the grid along one axis, several, or all."""
    grid = current().grid or (1,)
    if axes is None:
        return math.prod(grid)
    if isinstance(axes, int):
        return grid[axis] if -len(grid) <= (axis := axes) < len(grid) else 1
    return math.prod(grid[axis] for axis in axes)


def program_ndim() -> int:
    """Dimensions of the grid."""
    return len(current().grid)


def nc(count: int) -> int:
    """A grid dimension over physical cores."""
    return count


def spmd_dim(*sizes: int) -> int:
    """A grid dimension over cores and programs."""
    return math.prod(sizes)


# --- creation ----------------------------------------------------------------------------------------


def _space(buffer: Any) -> str:
    if buffer is None:
        return SBUF
    found = str(buffer)
    if found not in (SBUF, PSUM, HBM):
        found = {"private_hbm": HBM, "shared_hbm": HBM}.get(found, found)
    if found not in (SBUF, PSUM, HBM):
        raise KernelError(f"buffer {buffer!r} is none of sbuf, psum, hbm", "err_unsupported_memory")
    return found


def _made(shape: Sequence[int], dtype: Any, buffer: Any, name: str, value: Any, maker: Any = None) -> Tensor:
    space = _space(buffer)
    recording = current()
    if space == HBM and value is not None:
        raise KernelError(
            "zeros, ones or full in HBM: make it by nl.ndarray and store to it",
            "err_hbm_tensor_with_init_value_not_supported",
        )
    if space != HBM and value is not None and getattr(buffer, "is_placed", False):
        raise KernelError(
            f"zeros, ones or full of {list(shape)} at a place in {space} of its own: use nl.ndarray",
            "err_tensor_creation_on_scratchpad_with_init_value_not_supported",
        )
    if space == HBM and getattr(buffer, "is_shared", False):
        text = shared_memory_text(
            recording.moments[recording.moment()], recording.where(recording.place()), name
        )
        if text and recording.version == 1:
            recording.note(text)
        return recording.shared(tuple(int(size) for size in shape), dtype, name)
    made = recording.new(shape, dtype, space, name, maker=maker)
    if value is not None:
        recording.fill(made, value)
    return made


def _tensor(shape: Any, dtype: Any, buffer: Any, name: str, value: Any = None) -> Any:
    sizes = tuple(shape) if isinstance(shape, Sequence) else (shape,)
    if len(sizes) == 1 and isinstance(sizes[0], ParDim) and _space(buffer) != HBM:
        sizes = (*sizes, 1)
    blocks = next((at for at, size in enumerate(sizes) if isinstance(size, ParDim)), 0)
    if blocks and _space(buffer) != HBM:
        whole = tuple(int(size) for size in sizes)

        def make(label: str, maker: Any) -> Tensor:
            return _made(whole[blocks:], dtype, buffer, label, None, maker)

        tiles = Tiles(make, name or assigned_name(users_frame()), value, buffer, current().scope())
        return BlockTensor(whole, blocks, dtype_of(dtype), tiles)
    return _made(sizes, dtype, buffer, name, value)


def ndarray(shape: Any, dtype: Any, buffer: Any = None, name: str = "", address: Any = None, **_: Any) -> Any:
    """Memory, not initialised."""
    return _tensor(shape, dtype, buffer, name)


def zeros(shape: Any, dtype: Any, buffer: Any = None, name: str = "", **_: Any) -> Any:
    """Memory full of 0."""
    return _tensor(shape, dtype, buffer, name, 0.0 if is_float(dtype_of(dtype)) else 0)


def ones(shape: Any, dtype: Any, buffer: Any = None, name: str = "", **_: Any) -> Any:
    """Memory full of 1."""
    return _tensor(shape, dtype, buffer, name, 1.0 if is_float(dtype_of(dtype)) else 1)


def full(shape: Any, fill_value: Any, dtype: Any, buffer: Any = None, name: str = "", **_: Any) -> Any:
    """Memory full of a number."""
    return _tensor(shape, dtype, buffer, name, needed_number(fill_value, "nl.full"))


def _either(first: Any, second: Any) -> Any:
    """An argument that the generations name differently."""
    return second if first is None else first


def zeros_like(
    a: Any = None, dtype: Any = None, buffer: Any = None, name: str = "", *, x: Any = None, **_: Any
) -> Any:
    """Zeros of the shape and type of another tensor."""
    a = _either(a, x)
    return zeros(a.shape, dtype or a.dtype, buffer=buffer, name=name)


def empty_like(
    a: Any = None, dtype: Any = None, buffer: Any = None, name: str = "", *, x: Any = None, **_: Any
) -> Any:
    """Memory of the shape and type of another tensor."""
    a = _either(a, x)
    return ndarray(a.shape, dtype or a.dtype, buffer=buffer, name=name)


def shared_constant(constant: Any, dtype: Any = None, **_: Any) -> Tensor:
    """An array, or that of a .npy file, in HBM: it comes with the program. Raises KernelError."""
    if isinstance(constant, str | Path):
        try:
            constant = np.load(constant, allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            reason = getattr(error, "strerror", None) or error
            shown = echo(str(constant))
            raise KernelError(f"nl.shared_constant {shown!r}: no .npy file: {reason}") from None
    array = np.asarray(constant)
    return current().constant(array if dtype is None else array.astype(dtype_of(dtype)))


def shared_identity_matrix(n: int, dtype: Any = "uint8", dst: Any = None, **_: Any) -> Any:
    """An identity matrix in HBM."""
    recording = current()
    made = recording.constant(np.identity(n).astype(dtype_of(dtype)), "identity")
    if dst is None and recording.version > 1:
        return move.load(made)
    if dst is None:
        return made
    current().move(dst, made)
    return None


def static_cast(input_data: Any, dtype: Any) -> Any:
    """A number or array of the kernel's Python as another type."""
    kind = dtype_of(dtype)
    return input_data.astype(kind) if isinstance(input_data, np.ndarray) else kind.type(input_data)


def gemm_grid() -> Grid:
    """Indices of a result, or of the moving tile, of a product."""
    return mgrid[0:128, 0:512]


def gemm_stationary_grid() -> Grid:
    """Indices of the stationary tile of a product."""
    return mgrid[0:128, 0:128]


def finfo(dtype: Any) -> Any:
    """Limits of a float type."""
    import ml_dtypes

    return ml_dtypes.finfo(dtype_of(dtype))


# --- movement ----------------------------------------------------------------------------------------


def load(src: Any, dtype: Any = None, mask: Any = None, mode: Any = 0, **_: Any) -> Tensor:
    """HBM to a new tile; mode, as kernels of the vendor give it, is the oob_mode of dma_copy."""
    return move.load(src, mask, dtype, mode)


def store(dst: Any, value: Any, mask: Any = None, **_: Any) -> None:
    """A tile to HBM."""
    move.store(dst, value, mask)


def load_transpose2d(src: Any, dtype: Any = None, mask: Any = None, **_: Any) -> Tensor:
    """HBM to a new tile, transposed."""
    if src.row_index is not None:
        raise KernelError(
            f"load_transpose2d: {src!r} with indices of a tile; load the rows, then transpose them",
            "err_indirect_indices_are_not_supported_with_nki_api",
        )
    if mask is not None:
        src = src.boxed(box_of(mask, src.shape))
    return move.load_transposed(src, dtype)


def copy(src: Any = None, dtype: Any = None, mask: Any = None, *, x: Any = None, **_: Any) -> Tensor:
    """A copy in a new tile of src, which generation 2 names x."""
    return move.tensor_copy(None, _either(src, x), None, mask, dtype)


def transpose(x: Any, dtype: Any = None, mask: Any = None, **_: Any) -> Tensor:
    """[P, F] to [F, P]."""
    if current().version == 1 and getattr(x, "ndim", 2) > 2:
        raise KernelError(
            f"nl.transpose of {x!r}: at most 2 dimensions; transpose its parts, or nisa.nc_transpose",
            "err_exceed_max_supported_dimension",
        )
    return move.nc_transpose(None, x, None, mask, dtype)


def expand_dims(data: Any = None, axis: int = 0, *, x: Any = None) -> Any:
    """With a dimension of size 1."""
    return _either(data, x).expand_dims(axis)


def broadcast_to(src: Any = None, shape: Any = None, dtype: Any = None, *, x: Any = None, **_: Any) -> Tensor:
    """Repeated to a shape."""
    src, wanted = _either(src, x), tuple(shape)
    if dtype is not None and dtype_of(dtype) != src.dtype:
        src = move.tensor_copy(None, src, dtype=dtype)
    if not src.is_on_chip or src.shape[0] == wanted[0]:
        return src.free_broadcast(wanted)
    if src.shape[0] != 1:
        raise KernelError(f"{src!r} does not broadcast to {list(wanted)}")
    full_row = src.free_broadcast((1, *wanted[1:])) if src.shape[1:] != wanted[1:] else src
    if full_row is not src:
        full_row = move.tensor_copy(None, full_row)
    return patterns.broadcast_partitions(full_row, wanted[0])


def gather_flattened(
    data: Any, indices: Any, axis: int = 0, dtype: Any = None, mask: Any = None, **_: Any
) -> Tensor:
    """Elements of each partition by index."""
    if axis:
        raise KernelError(f"gather_flattened along axis {axis}: indices count in all free dimensions")
    return patterns.gather_free(None, data, indices, dtype)


def device_print(
    prefix: str = "", x: Any = None, mask: Any = None, *, tensor: Any = None, print_prefix: str = "", **_: Any
) -> None:
    """Noted; the values are in the debugger at any cycle."""
    current().prints.append(str(prefix or print_prefix))
    current().note("device_print: look at the tile in the debugger; nothing is printed by the device")


refuse_unknown(globals(), "nl")
