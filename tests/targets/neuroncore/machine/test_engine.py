"""The machine's rules by name: published latencies, waiting, faults, control flow, growth, plain kernels."""

import itertools
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from npuviz.program.graph import Graph
from npuviz.sim import stop
from npuviz.sim.events import EventBuffer
from npuviz.sim.parts import watch_kernels as wk
from npuviz.sim.stop import NO_STOPS
from npuviz.targets.neuroncore import isa
from npuviz.targets.neuroncore.isa import Activation, Alu, Condition, Flag, Opcode, Space, Update, When
from npuviz.targets.neuroncore.kernels import records as sk
from npuviz.targets.neuroncore.machine.engine import Engine
from npuviz.targets.neuroncore.spec import NeuronSpec, make_spec
from npuviz.targets.neuroncore.tables import SBUF, Access, Descriptor, QueueSet, Tables, Transfer
from npuviz.targets.neuroncore.view.description import numbering, used_semaphores
from npuviz.targets.neuroncore.view.observe import Observer
from npuviz.trace import schema
from tests.targets.neuroncore.random_programs import assemble, instruction, operand, random_tables

GRAPH = Graph("small", (), (), (), ())
FOREVER = 1 << 40


def make(spec: NeuronSpec, tables: Tables) -> tuple[Engine, Observer]:
    used = used_semaphores(spec, tables)
    engine = Engine(spec, tables, GRAPH, numbering(spec, tables, used))
    return engine, Observer(engine, None, used)  # type: ignore[arg-type]


def intervals(spec: NeuronSpec, tables: Tables) -> list[tuple[int, int, int, int]]:
    """(track, start, end, kind) of a recorded run."""
    engine, _ = make(spec, tables)
    buffer = EventBuffer(1 << 14)
    engine.advance(FOREVER, NO_STOPS, buffer)
    rows = buffer.take()
    rows = rows[rows[:, 0] >> schema.TYPE_SHIFT == schema.INTERVAL]
    return [(w >> 32 & 0xFFFFFF, a, b, w & 0xFFFFFFFF) for w, a, b, _ in rows.tolist()]


def chain(engine: int, opcode: int, op0: int, length: int, count: int = 1) -> list[np.ndarray]:
    """Instructions that each need the result of the one before."""
    rows: list[np.ndarray] = []
    for index in range(length):
        row = instruction(engine, opcode)
        row["op0"] = op0
        operand(row, 0, Space.SBUF, 64, count, 1)
        operand(row, 1, Space.SBUF, 64, count, 1)
        row["updates"][0] = (engine, Update.SEM_INC, When.COMPLETE, 0)
        if index:
            row["waits"][0] = (engine, Condition.GE, 1, index)
        rows.append(row)
    return rows


def load(spec: NeuronSpec, index: int, queue: int, rows: int, size: int, semaphore: int) -> Transfer:
    """`rows` elements of `size` bytes from HBM into as many partitions."""
    source = Access(0, 0, (1,), (rows * size,))
    target = Access(SBUF, 0, (1, spec.sbuf_partition_bytes), (size, rows))
    return Transfer(index, 0, queue, (Descriptor("copy", target, (source,)),), semaphore=semaphore)


def test_numbers_shared_with_kernels() -> None:
    assert (sk.OP_END, sk.OP_REG_MOVE, sk.OP_REG_ALU, sk.OP_BRANCH, sk.OP_CORE_BARRIER) == (
        Opcode.END,
        Opcode.REG_MOVE,
        Opcode.REG_ALU,
        Opcode.BRANCH,
        Opcode.CORE_BARRIER,
    )
    assert [kind for kind in Update if kind != Update.NONE] == [
        sk.UP_INC,
        sk.UP_DEC,
        sk.UP_ADD,
        sk.UP_SUB,
        sk.UP_WRITE,
        sk.UP_EVENT_SET,
        sk.UP_EVENT_CLEAR,
    ]
    assert (sk.WHEN_COMPLETE, sk.WHEN_READ) == (When.COMPLETE, When.READ)
    assert sk.FLAG_REGISTER == Flag.REGISTER
    assert wk.STOP_WORDS == stop.STOP_WORDS
    assert max(Opcode) < sk.KIND_WAIT_SEMAPHORE
    assert isa.INSTRUCTION_DTYPE.itemsize == isa.SLOT_BYTES + 6 * isa.OPERAND_DTYPE.itemsize


def test_dependent_scalar_instructions_start_189_ns_apart_on_trn1() -> None:
    """Ref: PERF: 264 Scalar cycles, 189 ns."""
    spec, _ = make_spec("trn1")
    rows = chain(isa.Engine.ACTIVATION, Opcode.ACTIVATION, Activation.COPY, 5)
    found = intervals(spec, assemble(spec, rows, {}, ()))
    starts = [start for track, start, _, kind in found if track == 1 and kind == Opcode.ACTIVATION]
    assert {round((b - a) * 1e9 / spec.pe_hz) for a, b in itertools.pairwise(starts)} == {189}
    waits = [kind for track, _, _, kind in found if track == 1 and kind >= sk.KIND_WAIT_SEMAPHORE]
    assert waits == [sk.KIND_WAIT_SEMAPHORE] * 4


def test_32_kib_on_one_dma_engine_take_1416_ns_on_trn2() -> None:
    """Ref: DMA-O: four elements of 8 KiB and the semaphore write, 1416 ns."""
    spec, _ = make_spec("trn2")
    rows = [instruction(4, Opcode.DMA_TRIGGER)]
    tables = assemble(spec, rows, {0: load(spec, 0, 0, 4, 8192, 9)}, (QueueSet(0, "q", 0, 4, 1, 9),))
    found = [
        (b - a) * 1e9 / spec.pe_hz for _, a, b, kind in intervals(spec, tables) if kind == sk.KIND_TRANSFER
    ]
    assert found == [pytest.approx(1416, rel=0.05)]


def dma_busy(spec: NeuronSpec, transfer: Transfer) -> list[int]:
    """Busy cycles of the 16 DMA engines after one transfer."""
    rows = [instruction(4, Opcode.DMA_TRIGGER)]
    tables = assemble(spec, rows, {0: transfer}, (QueueSet(0, "q", 0, 4, 16, 9),))
    engine, observer = make(spec, tables)
    engine.advance(FOREVER, NO_STOPS, None)
    assert observer.semaphores()[0].value == 16
    return [int(observer.dma_engine(n).busy) for n in range(16)]


def test_every_ring_of_a_queue_set_writes_its_mark_and_the_semaphore_gets_them_together() -> None:
    """Ref: DMA-O: 4 rows take one engine, the other 15 only write the semaphore."""
    spec, _ = make_spec("trn2")
    busy = dma_busy(spec, load(spec, 0, 0, 4, 8192, 9))
    assert busy[1:] == [spec.to_cycles(spec.dma_element_ns)] * 15
    assert busy[0] / spec.pe_hz * 1e9 == pytest.approx(1416, rel=0.01)


def test_a_dma_engine_moves_eight_partitions() -> None:
    """Ref: DMA-O: 128 partitions by 16 engines; half of the partitions keep half of the engines idle."""
    spec, _ = make_spec("trn2")
    mark = spec.to_cycles(spec.dma_element_ns)
    all_rows, half = (
        dma_busy(spec, load(spec, 0, 0, 128, 2048, 9)),
        dma_busy(spec, load(spec, 0, 0, 64, 2048, 9)),
    )
    assert len(set(all_rows)) == 1
    assert half == [all_rows[0]] * 8 + [mark] * 8
    late = replace_rows(spec, load(spec, 0, 0, 20, 2048, 9), 60)
    eighth = (all_rows[0] - 1) // 8
    assert [round((each - 1) / eighth) for each in dma_busy(spec, late)[7:10]] == [4, 8, 8]


def replace_rows(spec: NeuronSpec, transfer: Transfer, partition: int) -> Transfer:
    """The transfer, to partitions from `partition` on."""
    (one,) = transfer.descriptors
    to = replace(one.to, offset=partition * spec.sbuf_partition_bytes)
    return replace(transfer, descriptors=(replace(one, to=to),))


def test_what_stays_in_hbm_is_shared_out_equally() -> None:
    spec, _ = make_spec("trn2")
    there, here = Access(0, 1 << 16, (1, 1024), (512, 32)), Access(0, 0, (1, 1024), (512, 32))
    busy = dma_busy(spec, Transfer(0, 0, 0, (Descriptor("copy", there, (here,)),), semaphore=9))
    assert len(set(busy)) == 1


def test_the_semaphore_write_hides_behind_a_long_element_from_v3_on() -> None:
    for preset, hidden in (("trn1", False), ("trn2", True)):
        spec, _ = make_spec(preset)
        mark = spec.to_cycles(spec.dma_element_ns)
        long, short = (dma_busy(spec, load(spec, 0, 0, 128, size, 9))[0] for size in (4096, 64))
        moving = 8 * spec.element_ns(4096, spec.dma_peak_bytes_per_ns) * spec.pe_hz / 1e9
        assert (long - moving < mark / 2) is hidden
        assert short >= 9 * mark - 9
        middle = dma_busy(spec, load(spec, 0, 0, 128, 512, 9))[0]  # eight elements of 22 ns hide one of 16
        moving = 8 * spec.element_ns(512, spec.dma_peak_bytes_per_ns) * spec.pe_hz / 1e9
        assert (middle - moving < mark / 2) is hidden


@pytest.mark.parametrize(("preset", "is_shared"), [("trn1", True), ("trn2", False)])
def test_psum_is_shared_by_vector_and_scalar_on_v2_only(preset: str, is_shared: bool) -> None:
    """Ref: ARCH2, ARCH3. The two use different PSUM banks."""
    spec, _ = make_spec(preset)
    rows = [instruction(isa.Engine.ACTIVATION, Opcode.ACTIVATION), instruction(3, Opcode.TENSOR_COPY)]
    for place, row in enumerate(rows):
        operand(row, 0, Space.SBUF, 4096 * place, 400)
        operand(row, 1, Space.PSUM, 2048 * place, 400)
    kinds = [kind for _, _, _, kind in intervals(spec, assemble(spec, rows, {}, ()))]
    assert (sk.KIND_WAIT_PORT in kinds) == is_shared


def test_vector_and_scalar_collide_in_one_psum_bank_on_v3() -> None:
    spec, _ = make_spec("trn2")
    rows = [instruction(isa.Engine.ACTIVATION, Opcode.ACTIVATION), instruction(3, Opcode.TENSOR_COPY)]
    for place, row in enumerate(rows):
        operand(row, 0, Space.SBUF, 4096 * place, 100)
        operand(row, 1, Space.PSUM, 512 * place, 100)
    assert sk.KIND_WAIT_PORT in [kind for _, _, _, kind in intervals(spec, assemble(spec, rows, {}, ()))]


def test_a_full_queue_set_holds_its_trigger_back() -> None:
    spec, _ = make_spec("trn1")
    count = sk.FIFO_TRANSFERS + 3
    rows = [instruction(4, Opcode.DMA_TRIGGER) for _ in range(count)]
    transfers = {n: load(spec, n, 0, 1, 64, 9) for n in range(count)}
    tables = assemble(spec, rows, transfers, (QueueSet(0, "q", 0, 4, 1, 9),))
    assert sk.KIND_WAIT_QUEUE in [kind for _, _, _, kind in intervals(spec, tables)]
    engine, observer = make(spec, tables)
    engine.advance(FOREVER, NO_STOPS, None)
    assert int(observer.queue_set(0).peak) == sk.FIFO_TRANSFERS
    assert int(engine.state[sk.CHIP.transfers]) == count


def test_deadlock_names_the_cycle_of_waits() -> None:
    spec, _ = make_spec("trn1")
    rows = [instruction(1, Opcode.NOP), instruction(3, Opcode.NOP)]
    rows[0]["waits"][0] = (3, Condition.GE, 1, 1)
    rows[0]["updates"][0] = (1, Update.SEM_INC, When.COMPLETE, 0)
    rows[1]["waits"][0] = (1, Condition.GE, 1, 1)
    rows[1]["updates"][0] = (3, Update.SEM_INC, When.COMPLETE, 0)
    engine, observer = make(spec, assemble(spec, rows, {}, ()))
    assert engine.advance(FOREVER, NO_STOPS, None)[0] == sk.RESULT_DEADLOCK
    unit, text = observer.deadlock()
    assert unit == "Core[0].Activation"
    assert text == (
        "deadlock: Core[0].Activation waits for Core[0].S[3] >= 1, now 0 -> Core[0].DVE waits for "
        "Core[0].S[1] >= 1, now 0 -> back to Core[0].Activation"
    )
    assert engine.advance(FOREVER, NO_STOPS, None)[0] == sk.RESULT_DEADLOCK


def test_a_wait_nobody_can_end_is_said_so() -> None:
    spec, _ = make_spec("trn1")
    row = instruction(1, Opcode.NOP)
    row["waits"][0] = (7, Condition.GE, 1, 1)
    engine, observer = make(spec, assemble(spec, [row], {}, ()))
    assert engine.advance(FOREVER, NO_STOPS, None)[0] == sk.RESULT_DEADLOCK
    assert observer.deadlock()[1].endswith("which nobody will change any more")


@pytest.mark.parametrize(
    ("updates", "fault"),
    [
        ([(Update.SEM_DEC, 0)], sk.FAULT_SEMAPHORE_UNDERFLOW),
        ([(Update.SEM_ADD, 0xFFFFFFFF), (Update.SEM_INC, 0)], sk.FAULT_SEMAPHORE_OVERFLOW),
        ([(Update.EVENT_SET, 0), (Update.EVENT_SET, 0)], sk.FAULT_EVENT_SET_TWICE),
        ([(Update.EVENT_CLEAR, 0)], sk.FAULT_EVENT_CLEARED_TWICE),
    ],
)
def test_misused_semaphores_and_events_are_faults(updates: list[tuple[Update, int]], fault: int) -> None:
    """Ref: EXPL."""
    spec, _ = make_spec("trn1")
    row = instruction(1, Opcode.NOP)
    for place, (kind, value) in enumerate(updates):
        row["updates"][place] = (5, kind, When.COMPLETE, value)
    engine, _ = make(spec, assemble(spec, [row], {}, ()))
    assert engine.advance(FOREVER, NO_STOPS, None)[0] == sk.RESULT_FAULT
    assert int(engine.state[sk.CHIP.fault]) == fault


def test_a_loop_counts_in_registers() -> None:
    """Ref: SDK isa: register move, ALU, compare and branch."""
    spec, _ = make_spec("trn1")
    rows = [instruction(3, code) for code in (Opcode.REG_MOVE, Opcode.NOP, Opcode.REG_ALU, Opcode.BRANCH)]
    for row, value in ((rows[0], 5), (rows[2], 1), (rows[3], 0)):
        row["imm"][0] = np.int32(value).view(np.float32)
        row["op0"] = row["op1"] = 2
    rows[1]["updates"][0] = (3, Update.SEM_INC, When.COMPLETE, 0)
    rows[2]["cmd"] = Alu.SUBTRACT
    rows[3]["cmd"], rows[3]["id"] = Condition.GT, 1
    engine, observer = make(spec, assemble(spec, rows, {}, ()))
    assert engine.advance(FOREVER, NO_STOPS, None)[0] == sk.RESULT_FINISHED
    assert observer.semaphores()[0].value == 5
    assert int(observer.sequencer(3).registers[2]) == 0
    rows[3]["id"] = 77
    engine, _ = make(spec, assemble(spec, rows, {}, ()))
    assert engine.advance(FOREVER, NO_STOPS, None)[0] == sk.RESULT_FAULT
    assert int(engine.state[sk.CHIP.fault]) == sk.FAULT_BRANCH


def test_the_log_grows_with_the_run() -> None:
    spec, _ = make_spec("trn1")
    rows = [instruction(3, Opcode.NOP) for _ in range(3000)]
    engine, _ = make(spec, assemble(spec, rows, {}, ()))
    engine.advance(FOREVER, NO_STOPS, None)
    assert engine.log()[:, 0].tolist() == list(range(3000))
    assert (np.diff(engine.log()[:, 1]) > 0).all()


# Quicker: tests/contract/test_first_start.py.
@pytest.mark.sweep
def test_uncompiled_kernels_give_the_same_state() -> None:
    spec, _ = make_spec("trn2")
    engine, _ = make(spec, random_tables(spec, 4))
    engine.advance(FOREVER, NO_STOPS, None)
    code = (
        "from tests.targets.neuroncore.machine.test_engine import *\n"
        "spec, _ = make_spec('trn2')\n"
        "engine, _ = make(spec, random_tables(spec, 4))\n"
        "engine.advance(FOREVER, NO_STOPS, None)\n"
        "print(engine.used_state().tobytes().hex())"
    )
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": os.getcwd()}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True
    )
    assert done.stdout.strip() == engine.used_state().tobytes().hex()


def transposes(count: int, partitions: int = 128) -> list[np.ndarray]:
    """Transposes of fp32 on PE, one after the other; 512 cycles each on trn1, 256 on trn2."""
    rows = [instruction(0, Opcode.NC_TRANSPOSE) for _ in range(count)]
    for row in rows:
        operand(row, 0, Space.PSUM, 0, partitions, 128)
        operand(row, 1, Space.SBUF, 0, 128, partitions)
    return rows


def durations(spec: NeuronSpec, rows: list[np.ndarray]) -> list[int]:
    """Cycles for which each transpose occupies PE."""
    found = intervals(spec, assemble(spec, rows, {}, ()))
    return [b - a for track, a, b, kind in found if track == 0 and kind == Opcode.NC_TRANSPOSE]


def test_pe_works_at_half_its_rate_for_3_us_after_a_pause() -> None:
    """Ref: EXPL glossary, dI/dt throttling of Trn2 and Trn3."""
    spec, _ = make_spec("trn2")
    pause = instruction(0, Opcode.NOP)
    pause["id"] = 2 * spec.to_cycles(3000)
    found = durations(spec, [*transposes(24), pause, *transposes(24)])
    slow = [512] * 15 + [256] * 9  # the last one begins before 3 us are over
    assert found == slow * 2
    assert durations(make_spec("trn1")[0], transposes(12)) == [512] * 12
    assert durations(make_spec("trn2", settings={"pe_ramp_ns": "0"})[0], transposes(12)) == [256] * 12


def test_pe_with_a_quarter_of_its_rows_stays_limited() -> None:
    """Utilization counts elements of the array; Ref: EXPL profile schema, PE utilization by FLOPs."""
    spec, _ = make_spec("trn2")
    assert set(durations(spec, transposes(200, 32))) == {256}  # 128 without the limit


def test_cycles_that_the_limit_takes_can_be_read() -> None:
    spec, _ = make_spec("trn2")
    tables = assemble(spec, transposes(24), {}, ())
    engine, observer = make(spec, tables)
    engine.advance(100, NO_STOPS, None)
    assert "at half its rate" in observer.unit_states()[0].detail
    engine.advance(FOREVER, NO_STOPS, None)
    assert observer.limited(0) == 15 * 256
