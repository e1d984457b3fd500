"""The values engine in time: forwards, backwards, other logs, hand-written bytes, threads."""

import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npuviz.program.graph import Graph, Node
from npuviz.program.tensor import Tensor
from npuviz.sim.replay.contents import Edit
from npuviz.sim.replay.engine import ReplayLimits
from npuviz.targets.neuroncore.ids import hbm_memory, memory_of_space
from npuviz.targets.neuroncore.isa import Activation, Alu, Engine, Flag, Opcode, ReduceCmd, Space
from npuviz.targets.neuroncore.tables import SBUF, Access, Descriptor
from npuviz.targets.neuroncore.values.engine import ValueEngine
from tests.sweeps import examples
from tests.targets.neuroncore.programs import F32, Maker, at, values_at

RANDOM = np.random.default_rng(13)
SBUF_0 = 0
TILE = at(F32, [16], 256, partitions=8)
OTHER = at(F32, [16], 512, partitions=8)
BANK = at(F32, [16], 0, partitions=16, space=Space.PSUM)
SUMS = at(F32, [1], 1024, partitions=8)


def busy_program() -> Maker:
    """Every kind of state changes: SBUF, PSUM, HBM, accumulators, tables, a variable read back."""
    maker = Maker()
    size = maker.spec.sbuf_partition_bytes
    maker.load(RANDOM.standard_normal((8, 16)).astype(np.float32), 256)
    maker.load(RANDOM.standard_normal((8, 16)).astype(np.float32), 512)
    out = maker.variable("scratch", (8, 16))
    for step in range(6):
        maker.run(Opcode.TABLE_LOAD, engine=Engine.ACTIVATION, id=step)
        maker.run(Opcode.TENSOR_TENSOR, dst=TILE, src0=TILE, src1=OTHER, op0=Alu.ADD)
        maker.run(
            Opcode.ACTIVATION, engine=Engine.ACTIVATION, dst=OTHER, src0=TILE, op0=Activation.TANH,
            imm=(0.5, 0.1), cmd=ReduceCmd.REDUCE, res=SUMS,
        )  # fmt: skip
        maker.run(
            Opcode.NC_MATMUL,
            engine=Engine.PE,
            dst=BANK,
            src0=TILE,
            src1=OTHER,
            flags=Flag.ACCUMULATE * bool(step),
        )
        maker.transfer(
            Descriptor("copy", Access(out, 0, (1,), (512,)), (Access(SBUF, 256, (1, size), (64, 8)),))
        )
        maker.transfer(
            Descriptor(
                "cast",
                Access(SBUF, 512, (1, size), (64, 8), "float32"),
                (Access(out, 0, (1,), (512,), "int32"),),
            )
        )
        maker.run(Opcode.TENSOR_SCALAR, dst=OTHER, src0=OTHER, op0=Alu.MULTIPLY, imm=(1e-9,), op1=Alu.BYPASS)
        maker.run(
            Opcode.ACTIVATION, engine=Engine.ACTIVATION, dst=SUMS, src0=SUMS, op0=Activation.SIN, imm=(9.0,)
        )
    return maker


def everything(engine: ValueEngine) -> tuple[object, ...]:
    """All that can be seen."""
    spec = engine.spec
    sbuf = engine.read(SBUF_0, 0, 128 * spec.sbuf_partition_bytes)
    psum = engine.read(memory_of_space(0, Space.PSUM), 0, 128 * spec.psum_partition_bytes)
    variables = tuple(engine.variable(v.id).tobytes() for v in engine.tables.variables)
    return (
        hash(sbuf), hash(psum), variables, engine.accumulators(0).tobytes(), engine.table_set(0),
        tuple(engine.hazards),
    )  # fmt: skip


MAKER = busy_program()
LOG = MAKER.log()
EDITS = (
    Edit(4, SBUF_0, 256, np.float32(9).tobytes() * 3),
    Edit(20, SBUF_0, 512 + MAKER.spec.sbuf_partition_bytes, b"\x00\x00\x80\x3f"),
    Edit(33, hbm_memory(MAKER.spec), 0, b"abcd" * 8),
)


def fresh(length: int, edits: tuple[Edit, ...]) -> tuple[object, ...]:
    engine = MAKER.engine()
    engine.advance_to(LOG[:length], edits)
    return everything(engine)


@pytest.fixture(scope="module")
def expected() -> dict[tuple[int, int], tuple[object, ...]]:
    """What a fresh engine shows, by (length, edits)."""
    return {(n, e): fresh(n, EDITS[:e]) for n in range(0, len(LOG) + 1, 3) for e in range(4)}


def test_the_program_changes_everything(expected) -> None:
    assert len({value[0] for value in expected.values()}) > 20
    last = expected[(len(LOG) - len(LOG) % 3, 0)]
    assert last[3] != bytes(512)
    assert {hazard.kind for hazard in last[5]} == {"input-range", "table-set"}


@examples(4, 12)
@given(st.lists(st.tuples(st.integers(0, 18), st.integers(0, 3), st.booleans()), min_size=2, max_size=8))
def test_any_way_there_equals_a_fresh_replay(expected, places) -> None:
    engine = MAKER.engine()
    for step, number, keeps in places:
        length = min(3 * step, len(LOG) - len(LOG) % 3)
        if keeps:
            engine._last_kept = -1e9
        engine.advance_to(LOG[:length], EDITS[:number])
        assert everything(engine) == expected[(length, number)]


def test_back_without_undo_and_from_kept_states(expected, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kept states instead of undoing: after every entry, thinned out, variables shared."""
    monkeypatch.setattr(ValueEngine, "limits", ReplayLimits(keep_seconds=-1.0, kept_states=8))
    engine = MAKER.engine()
    last = len(LOG) - len(LOG) % 3
    for length in (last, 12, 0, 30, 27, last, 3):
        engine.advance_to(LOG[:length], EDITS[:2])
        assert everything(engine) == expected[(length, 2)]


@pytest.mark.parametrize("ways", [(-6, 6, 12, 0), (12, 0, -6, 6)])
def test_undoing_past_a_kept_state_leaves_it_as_it_was(
    expected, ways: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The entries before a kept state are undone, or later ones applied; then that state is restored."""
    monkeypatch.setattr(ValueEngine, "limits", ReplayLimits(keep_seconds=1e9, undone_entries=8))
    engine = MAKER.engine()
    # HBM changes at 10, 20, 30 and 40.
    for kept_at in (12, 21, 33):
        engine.advance_to(LOG[: kept_at - 1])
        engine._keep_after = -1.0
        engine.advance_to(LOG[:kept_at])
        engine._keep_after = 1e9
        for length in (kept_at + way for way in ways):
            engine.advance_to(LOG[:length])
            assert everything(engine) == expected[(length, 0)], (kept_at, length)


def test_keeping_a_state_copies_what_changes_afterwards_only() -> None:
    engine = MAKER.engine()
    engine.advance_to(LOG)
    contents = engine.contents
    own = {id(array) for array in contents._state_arrays()}
    kept = contents.keep()
    copies = [array for array in kept.arrays() if array.nbytes and id(array) not in own]
    assert len(copies) == len(own)
    (written,) = contents._last
    before = written.flat.tobytes()
    contents._settle((written,))
    assert [array.tobytes() for array in kept.arrays() if id(array) not in own][len(own) :] == [before]


def test_another_order_is_another_history() -> None:
    """The same instructions completing in another order: what both share stays."""
    swapped = LOG.copy()
    swapped[[6, 7]] = swapped[[7, 6]]
    engine = MAKER.engine()
    engine.advance_to(LOG)
    engine.advance_to(swapped[:30])
    other = MAKER.engine()
    other.advance_to(swapped[:30])
    assert everything(engine) == everything(other)
    assert everything(engine) != fresh(30, ())


def test_edits_flow_into_results_and_can_be_taken_back() -> None:
    maker = Maker()
    a = maker.load(np.ones((4, 8), np.float32))
    out = at(F32, [8], 512, partitions=4)
    maker.run(Opcode.TENSOR_TENSOR, dst=out, src0=a, src1=a, op0=Alu.ADD)
    log = maker.log()
    engine = maker.engine()
    edit = Edit(2, SBUF_0, 4 + maker.spec.sbuf_partition_bytes, np.float32(5).tobytes())
    engine.advance_to(log, (edit,))
    wanted = np.full((4, 8), 2.0)
    wanted[1, 1] = 10
    np.testing.assert_array_equal(values_at(engine, out), wanted)
    engine.advance_to(log)
    np.testing.assert_array_equal(values_at(engine, out), np.full((4, 8), 2.0))
    constant = Edit(0, hbm_memory(maker.spec), 0, np.float32(3).tobytes())
    engine.advance_to(log, (constant,))
    assert values_at(engine, out)[0, 0] == 6
    assert engine.variable(0)[0, 0] == 3
    assert maker.variables[0].data is not None
    assert maker.variables[0].data[0, 0] == 1
    late = Edit(99, SBUF_0, 0, b"x")
    engine.advance_to(log, (late,))
    np.testing.assert_array_equal(values_at(engine, out), np.full((4, 8), 2.0))


def test_bytes_written_by_hand_are_written() -> None:
    maker = Maker()
    out = at(F32, [16], 512, partitions=1)
    maker.run(Opcode.TENSOR_COPY, dst=out, src0=at(F32, [16], 0, partitions=1))
    assert maker.finish().hazards[0].kind == "unwritten"
    engine = maker.finish(edits=(Edit(0, SBUF_0, 0, bytes(64)),))
    assert engine.hazards == []


def test_reading_across_memories() -> None:
    maker = Maker()
    maker.variable("constant", data=np.arange(10, dtype=np.uint8))
    maker.variable("constant", data=np.arange(5, dtype=np.uint8) + 100)
    engine = maker.engine()
    assert engine.read(hbm_memory(maker.spec), 8, 60) == bytes([8, 9, *[0] * 54, 100, 101, 102, 103])
    size = maker.spec.sbuf_partition_bytes
    engine.advance_to(maker.log(), (Edit(0, SBUF_0, size - 2, b"abcd"),))
    assert engine.read(SBUF_0, size - 3, 6) == b"\0abcd\0"
    with pytest.raises(ValueError, match="no memory"):
        engine.read(77, 0, 1)


def test_cores_have_memories_of_their_own() -> None:
    from tests.targets.neuroncore.programs import make_test_spec

    maker = Maker(make_test_spec("trn2", lnc="2"))
    values = RANDOM.standard_normal((128, 8)).astype(np.float32)
    a = maker.load(values, core=1)
    out = at(F32, [8], 256)
    maker.run(
        Opcode.ACTIVATION, engine=Engine.ACTIVATION, core=1, dst=out, src0=a, op0=Activation.COPY, imm=(1.0,),
        cmd=ReduceCmd.RESET_REDUCE,
    )  # fmt: skip
    engine = maker.finish()
    np.testing.assert_array_equal(values_at(engine, out, core=1), values)
    assert not values_at(engine, out, core=0).any()
    assert engine.accumulators(1).any()
    assert not engine.accumulators(0).any()


def test_two_threads_see_their_own_moments(expected) -> None:
    engine = MAKER.engine()
    wrong: list[int] = []

    def look(start: int) -> None:
        for step in range(12):
            length = (start + 7 * step) % 18 * 3
            with engine.at(LOG[:length]):
                if everything(engine) != expected[(length, 0)]:
                    wrong.append(length)

    threads = [threading.Thread(target=look, args=(start,)) for start in (0, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_inputs_are_cast_and_absent_ones_are_zero() -> None:
    tensors = (Tensor(0, "x", (4,), "float32", "input"), Tensor(1, "y", (4,), "float32", "input"))
    graph = Graph("g", (), tensors, (0, 1), ())
    maker = Maker(graph=graph)
    maker.variable("input", (4,), "float32", tensor=0)
    maker.variable("input", (4,), "bfloat16", tensor=1)
    engine = maker.finish({"y": np.array([1, 2, 3, 1.0009765625], np.float32)})
    assert engine.variable(0).tolist() == [0, 0, 0, 0]
    assert engine.variable(1).astype(np.float32).tolist() == [1, 2, 3, 1]
    found = engine.tensor(1)
    assert found is not None
    assert found.tolist() == engine.variable(1).tolist()
    assert engine.tensor(5) is None


def test_host_calls_read_and_write_hbm() -> None:
    import onnx

    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 20]> g (float[6] x) => (float[6] y) { y = CumSum(x, a) }'
    )
    tensors = (
        Tensor(0, "x", (6,), "float32", "input"),
        Tensor(1, "a", (), "int64", "weight"),
        Tensor(2, "y", (6,), "float32", "output", 0),
    )
    axis = np.array(0, np.int64)
    graph = Graph(
        "g", (Node(0, "n", "CumSum", "", (0, 1), (2,)),), tensors, (0,), (2,), {1: axis}, {"": 20},
        model.SerializeToString(),
    )  # fmt: skip
    maker = Maker(graph=graph)
    maker.variable("input", (6,), tensor=0)
    out = maker.variable("output", (6,), tensor=2)
    maker.run(Opcode.HOST_CALL, engine=Engine.HOST, id=0)
    engine, log = maker.engine({"x": np.arange(6, dtype=np.float32)}), maker.log()
    for length in (1, 0, 1):
        engine.advance_to(log[:length])
        assert engine.variable(out).tolist() == ([0, 1, 3, 6, 10, 15] if length else [0] * 6)
    assert engine.hazards == []


def test_a_log_of_unknown_instructions_is_a_fault() -> None:
    maker = Maker()
    maker.run(Opcode.NOP)
    engine = maker.engine()
    engine.advance_to(np.array([5, -1], np.int64))
    assert [hazard.kind for hazard in engine.hazards] == ["fault", "fault"]
