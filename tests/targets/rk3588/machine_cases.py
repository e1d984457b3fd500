"""Programs for the machine made from decoded work, without streams, and the published layer times."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from npuviz.program.memory import MemoryMap
from npuviz.program.program import Program
from npuviz.sim.stop import NO_STOPS, StopReason
from npuviz.targets.rk3588.machine.machine import RknnMachine
from npuviz.targets.rk3588.machine.payload import Payload
from npuviz.targets.rk3588.spec import RknnSpec
from npuviz.targets.rk3588.tables import Tables, Task
from npuviz.targets.rk3588.task.work import INT8, Convolution, Elementwise, Output, Stage, Work
from npuviz.targets.rk3588.view.listing import RknnListing
from tests.targets.rk3588.hand_tasks import EMPTY_GRAPH

FOREVER = 1 << 50
SHARED = Path(__file__).resolve().parents[4] / "shared" / "real" / "rk3588" / "layer_times_public.csv"
"""Not ours to hand on: beside the checkout."""
NOT_THERE = f"{SHARED} is not there: the published layer times are not shipped with npuviz"

BYPASSED = Stage(True, -1, False, 0, False, False, 0, 0, False, 0, False)
BIAS = replace(BYPASSED, is_bypassed=False, alu=2, alu_from_memory=True)
NO_EW = Elementwise(True, 2, False, True, 0, 8, False, 1, 0, 0, False)
CONVOLUTION = Convolution(
    is_depthwise=False, precision=INT8, width=8, height=8, channels=32, real_channels=32, kernels=32,
    kernel_height=1, kernel_width=1, stride_y=1, stride_x=1, dilation_y=1, dilation_x=1, pad_top=0,
    pad_left=0, pad_value=0, feature_address=0x1000_0000, line_stride=32, surface_stride=32,
    weight_address=0x2000_0000, weight_bytes=1024, kernel_bytes=32, data_banks=6, weight_banks=6,
    keeps_data=False, keeps_weights=False, grains=3, entries=4, co_work=0, is_quantized=False, truncate=0,
    out_width=8, out_height=8, out_kernels=32,
)  # fmt: skip
OUTPUT = Output(
    width=8, height=8, channels=32, original_channels=32, is_flying=False, to_memory=True, to_ppu=False,
    precision_in=0, precision_out=0, address=0x3000_0000, surface_stride=64, surface_add=128, offset=0,
    scale=1, shift=0, bs=BYPASSED, bn=BYPASSED, ew=NO_EW, main_address=0,
    operand_address=0, operand_surface_stride=0,
)  # fmt: skip


def convolution(
    channels: int,
    size: tuple[int, int],
    kernels: int,
    kernel: int,
    out: tuple[int, int],
    *,
    item: int = 1,
) -> Convolution:
    """A convolution in numbers, with as many feature banks as it needs (11 at most)."""
    height, width = size
    aligned = -(-channels // 16) * 16
    stride = max(1, round(height / out[0]))
    banks = min(11, max(1, -(-width * height * aligned * item // 32768)))
    kernel_bytes = kernel * kernel * aligned * item
    return replace(
        CONVOLUTION, precision=INT8 if item == 1 else 2, width=width, height=height, channels=aligned,
        real_channels=channels, kernels=kernels, kernel_height=kernel, kernel_width=kernel, stride_y=stride,
        stride_x=stride, pad_top=kernel // 2, pad_left=kernel // 2,
        weight_bytes=kernel_bytes * kernels, kernel_bytes=kernel_bytes,
        data_banks=banks, weight_banks=12 - banks, out_height=out[0], out_width=out[1], out_kernels=kernels,
        line_stride=4 * width, surface_stride=width * (height - 4),
    )  # fmt: skip


def output_of(conv: Convolution, **changes: object) -> Output:
    """The DPU behind a convolution."""
    sizes = replace(
        OUTPUT, width=conv.out_width, height=conv.out_height, channels=conv.out_kernels,
        original_channels=conv.out_kernels, surface_stride=conv.out_width * conv.out_height,
    )  # fmt: skip
    return replace(sizes, **changes)


def task_of(work: Work, index: int = 0, *, core: int = 0, job: int = 0) -> Task:
    """A task of so much work; its stream has the usual 112 words."""
    words = np.zeros(112, np.uint64)
    enables = 0x0D if work.convolution is not None else 0x18 if work.output is not None else 0x60
    stream = 0x4000_0000 + 896 * index
    return Task(index, core, job, stream, words, {}, frozenset(), work, enables, 0x300)


def machine_of(tasks: Sequence[Task], spec: RknnSpec | None = None, jobs: int = 1) -> RknnMachine:
    """A machine at cycle 0 that runs these tasks; they must be sorted by job and core."""
    spec = spec or RknnSpec(cores=1 + max(task.core for task in tasks))
    tables = Tables(spec.cores, tuple(tasks), (), jobs)
    payload = Payload(tables)
    listing = RknnListing(tables, spec)
    return RknnMachine(spec, Program("rk3588", "hand", EMPTY_GRAPH, listing, MemoryMap(), payload=payload))


def run(machine: RknnMachine) -> StopReason:
    """To the end, or where it hangs."""
    return machine.advance(FOREVER, NO_STOPS, None)


# --- published layer times -------------------------------------------------------------------------


@dataclass(frozen=True)
class Layer:
    """A row of the table: the work it is, and what the vendor's tool and the hardware say."""

    name: str
    op: str
    work: Work
    npu_cycles: int
    ddr_cycles: int
    time_us: float


def layers() -> list[Layer]:
    """All rows. Each is one task here: banks for all of it, as if tiles followed each other unseen."""
    lines = [line for line in SHARED.read_text().splitlines() if not line.startswith("#")]
    return [_layer(row) for row in csv.DictReader(lines)]


def layer_spec() -> RknnSpec:
    """One core whose CBUF holds any layer, so that a layer is one task."""
    return RknnSpec(cbuf_banks=15, cbuf_bank_bytes=1 << 20)


def _layer(row: dict[str, str]) -> Layer:
    c, h, w, k, r, oh, ow = (int(row[name]) for name in ("C", "H", "W", "K", "R", "OH", "OW"))
    conv = convolution(c, (h, w), k, r, (oh, ow))
    conv = replace(conv, data_banks=10, weight_banks=5)
    if c == 3:
        # Pixels are packed. Ref: PROF.
        conv = replace(conv, channels=3)
    op = row["op"]
    has_table = "Sigmoid" in op or "Swish" in op
    ew = replace(NO_EW, is_bypassed=not has_table, alu=-1 if "Swish" in op else 2, has_lut=has_table)
    bs = replace(BIAS, has_relu="Clip" in op, relu_limit=6 if "Clip" in op else 0)
    work = Work(conv, output_of(conv, bs=bs, ew=ew), None)
    return Layer(
        f"{row['model']} {row['id']}",
        op,
        work,
        int(row["npu_cyc"]),
        int(row["ddr_cyc"]),
        float(row["time_us"]),
    )
