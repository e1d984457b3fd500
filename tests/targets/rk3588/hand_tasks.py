"""Tasks and programs written by hand: registers by offset, buffers with packed bytes."""

from collections.abc import Mapping, Sequence

import numpy as np

from npuviz.program.graph import Graph
from npuviz.targets.rk3588.spec import RknnSpec
from npuviz.targets.rk3588.tables import Buffer, HostCall, Tables, Task
from npuviz.targets.rk3588.task.work import decode_work
from npuviz.targets.rk3588.values.engine import ValueEngine
from tests.shared_data import shared_folder

DATA = shared_folder("rk3588")

FEATURES, WEIGHTS, OUTPUT, BIAS, OPERAND, SCALES = (0x10000000 * number for number in range(1, 7))
EMPTY_GRAPH = Graph("", (), (), (), ())


def dump(name: str) -> list[int]:
    """The words of a reference stream, read without the code under test."""
    lines = (DATA / "regcmd" / f"regcmd_{name}.txt").read_text().splitlines()
    return [int(line.split()[1], 16) for line in lines if not line.startswith("#")]


def task_of_words(words: Sequence[int], enable: int = 0x0D, index: int = 0, core: int = 0) -> Task:
    """A task whose registers are what a stream writes."""
    registers = {
        word & 0xFFFF: word >> 16 & 0xFFFFFFFF for word in words if word >> 48 not in (0, 0x41, 0x81)
    }
    return Task(
        index=index, core=core, job=0, stream=0, words=np.array(words, np.uint64), registers=registers,
        changed=frozenset(registers), work=decode_work(registers, enable), enable_mask=enable,
        interrupt_mask=0x300,
    )  # fmt: skip


def task_of(registers: Mapping[int, int], enable: int, index: int = 0, core: int = 0) -> Task:
    """A task with these registers; DPU registers are written as DPU words."""
    words = [0x1001 << 48 | (value & 0xFFFFFFFF) << 16 | offset for offset, value in registers.items()]
    return task_of_words(words, enable, index, core)


def buffer(name: str, address: int, data: np.ndarray | int, **more: object) -> Buffer:
    """A buffer with the bytes of an array, or of so many zeros."""
    if isinstance(data, int):
        return Buffer(name, address, data, **more)  # type: ignore[arg-type]
    raw = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
    raw.flags.writeable = False
    return Buffer(name, address, len(raw), data=raw, **more)  # type: ignore[arg-type]


def engine_of(
    tasks: Sequence[Task],
    buffers: Sequence[Buffer],
    graph: Graph = EMPTY_GRAPH,
    hosts: Sequence[HostCall] = (),
    inputs: Mapping[str, np.ndarray] | None = None,
) -> ValueEngine:
    """A values engine of a program written by hand."""
    placed = tuple(sorted(buffers, key=lambda item: item.address))
    tables = Tables(1, tuple(tasks), placed, 1, tuple(hosts))
    return ValueEngine(tables, graph, RknnSpec(), inputs or {})


def log_of(*entries: int) -> np.ndarray:
    """A log."""
    return np.array(entries, np.int64)


def convolution_registers(
    weights: tuple[int, int, int, int],
    size: tuple[int, int],
    *,
    precision: int = 0,
    stride: tuple[int, int] = (1, 1),
    pads: tuple[int, int, int, int] = (0, 0, 0, 0),
    dilation: tuple[int, int] = (1, 1),
    depthwise: bool = False,
    out: int = 4,
    layer_height: int = 0,
) -> dict[int, int]:
    """Registers of a convolution. weights: K, aligned C, R, S; pads top, left, bottom, right."""
    kernels, channels, rows, columns = weights
    height, width = size
    item = 2 if precision in (1, 2, 3) else 1
    reach_y, reach_x = (rows - 1) * dilation[0] + 1, (columns - 1) * dilation[1] + 1
    out_height = (height + pads[0] + pads[2] - reach_y) // stride[0] + 1
    out_width = (width + pads[1] + pads[3] - reach_x) // stride[1] + 1
    per_kernel = rows * columns * channels * item
    mode = 3 if depthwise else 0
    count = 1 if depthwise else kernels
    surface = (layer_height or height) * width
    proc = precision
    return {
        0x100C: precision << 7 | precision << 4 | mode,
        0x1014: (dilation[0] - 1) << 21 | (dilation[1] - 1) << 16 | stride[0] << 3 | stride[1],
        0x1020: width << 16 | height,
        0x1024: (channels - 1) << 16 | channels,
        0x1030: per_kernel * count,
        0x1034: per_kernel,
        0x1038: columns << 24 | rows << 16 | count,
        0x1040: 0x57,
        0x104C: 0xB,
        0x1068: pads[1] << 4 | pads[0],
        0x1070: FEATURES,
        0x107C: 4 * width,
        0x1080: surface - 4 * width & 0xFFFFFFF,
        0x1110: WEIGHTS,
        0x3010: proc << 8 | (2 if depthwise else 0),
        0x3014: (out_height - 1) << 16 | out_width - 1,
        0x3018: kernels - 1,
        0x400C: 0x1E4,
        0x4010: out << 29 | precision << 26 | proc,
        0x4020: OUTPUT,
        0x4024: out_height * out_width << 4,
        0x4030: out_width - 1,
        0x4034: out_height - 1,
        0x403C: (kernels - 1) << 16 | kernels - 1,
        0x4040: 0x53,
        0x4050: 2,
        0x4060: 0x53,
        0x4070: 0x383,
        0x4084: 1,
    }
