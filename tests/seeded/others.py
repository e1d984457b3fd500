"""Broken programs of people: kinds that no rule was made for when they were written.

Each breaks a place that the seeds of the four machines leave whole: a transfer that is one row short, the
start of a sum in PSUM, an accumulator that nobody began, cores that write one slice, integers that wrap.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from npuviz.sim.machine import Machine
from npuviz.targets.neuroncore.isa import DST, SRC0, Flag, Opcode
from npuviz.targets.rk3588.tables import Tables
from npuviz.targets.systolic.kernels import program_records as tk
from npuviz.targets.systolic.tables import SystolicTables
from tests.seeded import neuroncore, rk3588, systolic, wavelet
from tests.seeded.neuroncore import kernel
from tests.seeded.seed import Seed
from tests.targets.wavelet.small import EASTWARD

_KERNEL = """
import nki
import nki.isa as nisa
import nki.language as nl


def on_chip(dtype=nl.float32, rows=128, buffer=nl.sbuf):
    return nl.ndarray((rows, 64), dtype=dtype, buffer=buffer)


@nki.jit
def kernel(a):
    out = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.shared_hbm)
    tile, total = on_chip(), on_chip()
    %s
    nisa.dma_copy(dst=out, src=total)
    return out
"""
_SHORT_LOAD = (
    _KERNEL
    % """nisa.dma_copy(dst=tile[0:127, :], src=a[0:127, :])
    nisa.tensor_scalar(dst=total, data=tile, op0=nl.multiply, operand0=2.0)"""
)
_INT_SUM = (
    _KERNEL
    % """whole, sums = on_chip(nl.int32), on_chip(nl.int32)
    nisa.dma_copy(dst=tile, src=a)
    nisa.memset(dst=whole, value=2000000000)
    nisa.tensor_tensor(dst=sums, data1=whole, data2=whole, op=nl.add)
    nisa.tensor_copy(dst=total, src=sums)"""
)
_INT_PRODUCT = _INT_SUM.replace("2000000000", "70000").replace("nl.add", "nl.multiply")
_INT8_SUM = _INT_SUM.replace("2000000000", "100").replace("int32", "int8")
_INT_GPSIMD = _INT_PRODUCT.replace("op=nl.multiply)", "op=nl.multiply, engine=nisa.gpsimd_engine)")


def seeds() -> Iterator[Seed]:
    """All of them."""
    yield from _neuroncore()
    yield from _systolic()
    yield from _rk3588()
    yield from _wavelet()


def _of(machine: str, kind: str, expected: frozenset[str] | set[str], make: Callable[[], Machine]) -> Seed:
    return Seed(f"{machine}: {kind}", machine, kind, frozenset(expected), make)


def _neuroncore() -> Iterator[Seed]:
    name = neuroncore.MACHINE
    code = neuroncore._tables(neuroncore._base()).instructions
    products = np.flatnonzero(code["opcode"] == Opcode.NC_MATMUL)
    adds = (code["flags"][products] & Flag.ACCUMULATE) > 0

    def never_started(code: np.ndarray) -> None:
        code["flags"][products[~adds][0]] |= Flag.ACCUMULATE

    def started_again(code: np.ndarray) -> None:
        code["flags"][products[adds][0]] -= Flag.ACCUMULATE

    yield _of(name, "a load one row short", {"unwritten"}, lambda: kernel(_SHORT_LOAD))
    yield _of(
        name,
        "a sum in PSUM that is never started",
        {"unwritten"},
        neuroncore._with("tiny_cnn", never_started),
    )
    yield _of(name, "a sum in PSUM that is started again", {"dead-store", "overwritten"},
              neuroncore._with("tiny_cnn", started_again))  # fmt: skip
    yield _shifted()
    for what, text in (("copied one element further", _SHIFT % ("1:64", "0:63")), ("spread out", _SPREAD)):
        yield _of(name, f"a row {what} in its own place", {"overlap"}, lambda text=text: kernel(text))
    for what, text in (("int32 sum", _INT_SUM), ("int32 product", _INT_PRODUCT), ("int8 sum", _INT8_SUM),
                       ("int32 product on GpSimd", _INT_GPSIMD)):  # fmt: skip
        yield _of(name, f"an {what} that overflows", {"overflow"}, lambda text=text: kernel(text))


_SHIFT = (
    _KERNEL
    % """nisa.dma_copy(dst=tile, src=a)
    nisa.tensor_copy(dst=tile[:, %s], src=tile[:, %s])
    nisa.tensor_scalar(dst=total, data=tile, op0=nl.multiply, operand0=2.0)"""
)
_SPREAD = (
    _KERNEL
    % """half = tile[:, 0:32]
    nisa.dma_copy(dst=tile, src=a)
    nisa.tensor_tensor(dst=tile[:, 0:64:2], data1=half, data2=half, op=nl.add)
    nisa.tensor_scalar(dst=total, data=tile, op0=nl.multiply, operand0=2.0)"""
)
SHIFTED_BACK = _SHIFT % ("0:63", "1:64")
"""Right: each element is read before its place is written."""


def _shifted() -> Seed:
    def shifted(code: np.ndarray) -> None:
        """The result begins one element behind the operand it is computed from."""
        mine = np.flatnonzero(code["opcode"] == Opcode.ACTIVATION)
        operands = code["operands"][mine]
        row = mine[(operands["space"][:, DST] == operands["space"][:, SRC0]).argmax()]
        for field in ("address", "partition", "partitions"):
            code["operands"][field][row, DST] = code["operands"][field][row, SRC0]
        code["operands"]["address"][row, DST] += 4

    make = neuroncore._with("tiny_transformer", shifted)
    return _of(neuroncore.MACHINE, "a result shifted over its own operand", {"overlap"}, make)


def _systolic() -> Iterator[Seed]:
    name = systolic.MACHINE

    def short(code: np.ndarray) -> None:
        loads = systolic.rows(code, "LD")
        mine = loads[(code[loads, tk.CODE.n0] > 1) | (code[loads, tk.CODE.n1] > 1)][0]
        column = tk.CODE.n0 if code[mine, tk.CODE.n0] > 1 else tk.CODE.n1
        code[mine, column] -= 1

    def never_begun(tables: SystolicTables) -> SystolicTables:
        tiles = tables.tiles.copy()
        used = tiles[:, tk.TILE.count] > 0
        tiles[np.flatnonzero(used)[0], tk.TILE.accumulate] = 1
        return replace(tables, tiles=tiles)

    yield _of(name, "a load one row short", {"unwritten", "incomplete"},
              systolic._with("tiny_transformer", systolic._coded(short)))  # fmt: skip
    yield _of(
        name, "a sum that no tile began", {"unwritten"}, systolic._with("tiny_transformer", never_begun)
    )


def _rk3588() -> Iterator[Seed]:
    name = rk3588.MACHINE

    def short(tables: Tables) -> Tables:
        """A task stores one row less than its reader reads."""
        tasks = list(tables.tasks)
        number, _ = rk3588.consumers("tiny_cnn")[1]
        work = tasks[number].work
        assert work.output is not None
        output = replace(work.output, height=work.output.height - 1)
        registers = dict(tasks[number].registers)
        registers[0x405C] -= 1 << 16
        tasks[number] = replace(tasks[number], work=replace(work, output=output), registers=registers)
        return rk3588._retasked(tables, tasks)

    def same_slice(tables: Tables) -> Tables:
        """Two cores of a job compute the same task."""
        tasks = list(tables.tasks)
        number, _ = rk3588.consumers("tiny_cnn")[1]
        core = (tasks[number].core + 1) % 3
        tasks.append(replace(tasks[number], core=core))
        return rk3588._retasked(replace(tables, num_cores=3), tasks)

    yield _of(name, "a result one row short", {"unwritten", "incomplete"}, rk3588._with("tiny_cnn", short))
    yield _of(
        name, "two cores that store one slice", {"unordered-writes"}, rk3588._with("tiny_cnn", same_slice)
    )


_TWO_THREADS = wavelet.PASS_ON.replace(
    "    @fadds(all, all, all);\n    @fmovs(all, in);\n    @activate(done);\n",
    "    @fmovs(all, in, .{ .async = true, .ut_id = @get_ut_id(4), .activate = done });\n"
    "    @fadds(all, all, all);\n",
)
_EARLY = wavelet.PASS_ON.replace(
    "    @fadds(all, all, all);\n    @fmovs(all, in);\n    @activate(done);\n",
    "    @fmovs(all, in, .{ .async = true, .activate = done });\n    kept = buf[63];\n",
).replace("var buf", "var kept: f32 = 0.0;\nvar buf")


_WRAPS = wavelet.PASS_ON.replace(
    "    @fadds(all, all, all);\n", "    @fadds(all, all, all);\n    @add16(few, few, few);\n"
).replace(
    "const all",
    "var small = [2]i16 { 3, 20000 };\n"
    "const few = @get_dsd(mem1d_dsd, .{ .base_address = &small, .extent = 2 });\nconst all",
)


def _wavelet() -> Iterator[Seed]:
    name = wavelet.MACHINE
    yield _of(name, "two threads that write one array", {"unordered-writes"},
              wavelet.machine_for(_TWO_THREADS, EASTWARD))  # fmt: skip
    yield _of(
        name, "a read before what fills it is over", {"early-read"}, wavelet.machine_for(_EARLY, EASTWARD)
    )
    unset = wavelet.PASS_ON.replace("var buf = @zeros([64]f32);", "var buf: [64]f32;")
    yield _of(name, "a variable that nobody fills", {"unwritten"}, wavelet.machine_for(unset, EASTWARD))
    yield _of(name, "a sum of i16 that wraps", {"overflow"}, wavelet.machine_for(_WRAPS, EASTWARD))
