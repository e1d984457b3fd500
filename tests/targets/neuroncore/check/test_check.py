"""The check against ONNX Runtime: what it accepts, and which instruction it names."""

from pathlib import Path

import numpy as np
import onnx
import pytest

from npuviz.cli.main import main
from npuviz.onnx.inputs import draw_inputs
from npuviz.onnx.reader import read_model
from npuviz.program.graph import Graph
from npuviz.sim.check_result import CheckResult
from npuviz.sim.replay.contents import Edit
from npuviz.targets.neuroncore.check.check import check
from npuviz.targets.neuroncore.ids import hbm_memory
from npuviz.targets.neuroncore.isa import DST, Activation, Alu, Engine, Opcode
from npuviz.targets.neuroncore.tables import SBUF, Access, Descriptor, Piece
from npuviz.targets.neuroncore.values.contents import ChipContents
from npuviz.targets.neuroncore.values.engine import ValueEngine
from tests.targets.neuroncore.programs import BF16, F32, Maker, at, make_test_spec

ROWS, COLUMNS = 8, 24
TEXT = """
<ir_version: 10, opset_import: ["" : 20]>
g (float[8, 24] x) => (float[8, 24] z, int64[8, 1] top)
{ y = Relu(x)
  z = Neg(y)
  top = ArgMax <axis = 1> (z) }
"""


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    path = tmp_path_factory.mktemp("models") / "chain.onnx"
    onnx.save(onnx.parser.parse_model(TEXT), path)
    return read_model(path)


class Chain:
    """x -> Relu -> Neg -> ArgMax on the host, by hand."""

    def __init__(self, graph: Graph, *, dtype: str = "float32", keeps_y: bool = True) -> None:
        self.maker = maker = Maker(make_test_spec("trn2"), graph)
        names = {tensor.name: tensor.id for tensor in graph.tensors}
        kind = {"float32": F32, "bfloat16": BF16}[dtype]
        self.size = maker.spec.sbuf_partition_bytes
        self.x = maker.variable("input", (ROWS, COLUMNS), tensor=names["x"])
        if keeps_y:
            self.y = maker.variable("scratch", (ROWS, COLUMNS), dtype, tensor=names["y"])
        self.z = maker.variable("output", (ROWS, COLUMNS), tensor=names["z"])
        self.top = maker.variable("output", (ROWS, 1), "int64", tensor=names["top"])
        self.source = at(F32, [COLUMNS], 0, partitions=ROWS)
        self.relu_result = at(kind, [COLUMNS], 256, partitions=ROWS)
        self.result = at(F32, [COLUMNS], 512, partitions=ROWS)
        maker.transfer(Descriptor("copy", self.tile(0, 96), (self.home(self.x, 96),)))
        self.relu = maker.run(
            Opcode.ACTIVATION, engine=Engine.ACTIVATION, dst=self.relu_result, src0=self.source,
            op0=Activation.RELU, imm=(1.0,),
        )  # fmt: skip
        if keeps_y:
            item = 4 if dtype == "float32" else 2
            self.store_y = maker.transfer(
                Descriptor("copy", self.home(self.y, COLUMNS * item), (self.tile(256, COLUMNS * item),))
            )
        self.negate = maker.run(
            Opcode.TENSOR_SCALAR, dst=self.result, src0=self.relu_result, op0=Alu.MULTIPLY, imm=(-1.0,)
        )
        self.store_z = maker.transfer(Descriptor("copy", self.home(self.z, 96), (self.tile(512, 96),)))
        self.host = maker.run(Opcode.HOST_CALL, engine=Engine.HOST, id=graph.nodes[-1].id)

    def tile(self, address: int, row_bytes: int) -> Access:
        return Access(SBUF, address, (1, self.size), (row_bytes, ROWS))

    def home(self, variable: int, row_bytes: int) -> Access:
        return Access(variable, 0, (1,), (row_bytes * ROWS,))

    def engine(self) -> ValueEngine:
        return self.maker.engine(draw_inputs(self.maker.graph, {}, 1))

    def check(self, log: np.ndarray | None = None, edits: tuple[Edit, ...] = ()) -> CheckResult:
        engine = self.engine()
        log = self.maker.log() if log is None else log
        engine.advance_to(log, edits)
        return check(engine, self.maker.graph, log)


def test_a_right_program_passes(graph: Graph) -> None:
    found = Chain(graph).check()
    assert (found.num_tensors, found.num_failed, found.first_divergence) == (3, 0, "")
    assert found.max_abs_err == 0
    assert "float32" in found.tolerance
    assert "integers exactly" in found.tolerance


def test_the_first_wrong_instruction_is_named(graph: Graph) -> None:
    chain = Chain(graph)
    chain.maker.rows[chain.relu]["op0"] = Activation.ABS
    found = chain.check()
    # ArgMax of what the machine had is right, and so is Neg; what the model puts out is not.
    assert (found.num_tensors, found.num_failed) == (3, 1)
    assert found.per_operator is not None
    assert found.per_operator.classes == {"right": 2, "wrong": 1}
    assert found.end_to_end is not None
    assert (found.end_to_end.num_failed, found.end_to_end.first_divergence) == (2, "y")
    assert [finding.tensor for finding in found.findings] == ["y", "z", "top"]
    assert {finding.operator for finding in found.findings} == {"Relu Relu_0"}
    relu, store = chain.maker.place_of(chain.relu), chain.maker.place_of(chain.store_y)
    assert found.first_divergence == (
        f"y (instruction {relu}, ACTIVATION on Activation, stored by the transfer of instruction {store})"
    )
    assert found.max_abs_err > 0.1


def test_a_small_error_in_one_element_is_found(graph: Graph) -> None:
    chain = Chain(graph)
    # Bytes written by hand between the computation of z and its transfer.
    edit = Edit(6, 0, 3 * chain.size + 512 + 20, np.float32(0.01).tobytes())
    assert int(chain.maker.log()[5]) == chain.maker.place_of(chain.negate)
    found = chain.check(edits=(edit,))
    assert found.num_failed == 1
    assert found.first_divergence.startswith(
        f"z (instruction {chain.maker.place_of(chain.negate)}, TENSOR_SCALAR"
    )


def test_what_nobody_wrote_is_wrong(graph: Graph) -> None:
    chain = Chain(graph)
    log = chain.maker.log()
    found = chain.check(log[:-3])
    assert found.num_failed == 2
    assert found.first_divergence.startswith("z (never written")


def test_tensors_that_stay_on_chip_are_seen_in_pieces(graph: Graph) -> None:
    chain = Chain(graph, keeps_y=False)
    names = {tensor.name: tensor.id for tensor in graph.tensors}
    found = chain.check()
    assert found.num_tensors == 2
    assert found.not_compared == {"fused into the operators that read them": ("y",)}
    chain.maker.pieces.append(Piece(names["y"], chain.relu, DST, 0, COLUMNS, (0, 0, 0, 1)))
    found = chain.check()
    assert (found.num_tensors, found.num_failed) == (3, 0)
    chain.maker.rows[chain.relu]["op0"] = Activation.SQUARE
    found = chain.check()
    assert (
        found.first_divergence
        == f"y (instruction {chain.maker.place_of(chain.relu)}, ACTIVATION on Activation)"
    )
    incomplete = Chain(graph, keeps_y=False)
    rows = at(F32, [COLUMNS], 256, partitions=ROWS)
    rows["partitions"] = ROWS - 1
    incomplete.maker.rows[incomplete.relu]["operands"][DST] = rows
    source = at(F32, [COLUMNS], 0, partitions=ROWS - 1)
    incomplete.maker.rows[incomplete.relu]["operands"][1] = source
    incomplete.maker.pieces.append(Piece(names["y"], incomplete.relu, DST, 0, COLUMNS, (0, 0, 0, 1)))
    assert incomplete.check().num_failed >= 1


def test_the_tolerance_follows_the_compute_type(graph: Graph) -> None:
    """An element that is 3 % off is right for bfloat16 and wrong for float32."""
    chain = Chain(graph, dtype="bfloat16")
    engine = chain.engine()
    engine.advance_to(chain.maker.log())
    value = engine.variable(chain.z).reshape(-1)
    largest = int(np.abs(value).argmax())
    address = chain.maker.variables[chain.z].address + 4 * largest
    edit = Edit(8, hbm_memory(chain.maker.spec), address, np.float32(value[largest] * 1.03).tobytes())
    assert "float32 0.001" in Chain(graph).check().tolerance
    assert Chain(graph).check().num_failed == 0
    # The operators are right on what they read; a program that holds y in bfloat16 is not one of float32.
    assert [finding.cause for finding in chain.check().findings] == [
        "fp32 rounding, from 0 of its inputs' magnitude to 0.0025 of its own"
    ]
    assert "z" in {finding.tensor for finding in chain.check(edits=(edit,)).findings}
    chain.maker.spec = make_test_spec("trn2", dtype="bf16")
    found = chain.check(edits=(edit,))
    assert found.num_failed == 0
    assert "bfloat16 0.05" in found.tolerance
    assert found.max_rel_err == pytest.approx(0.03, abs=0.004)


def test_a_wrong_host_result_is_named(graph: Graph) -> None:
    chain = Chain(graph)
    chain.maker.rows[chain.host]["id"] = 77
    found = chain.check()
    assert found.num_failed == 1
    assert found.first_divergence.startswith("top (")


@pytest.mark.parametrize(("change", "failed"), [(0, 0), (1, 0), (2, 1)])
def test_requantised_integers_may_be_one_step_off(tmp_path, change: int, failed: int) -> None:
    path = tmp_path / "q.onnx"
    onnx.save(
        onnx.parser.parse_model(
            '<ir_version: 10, opset_import: ["" : 20]> g (float[64] x) => (int8[64] y) '
            "<float s = {0.1}, int8 n = {0}> { y = QuantizeLinear(x, s, n) }"
        ),
        path,
    )
    graph = read_model(path)
    names = {tensor.name: tensor.id for tensor in graph.tensors}
    inputs = draw_inputs(graph, {}, 0)
    values = np.clip(np.rint(inputs["x"] / np.float32(0.1)), -128, 127).astype(np.int8)
    values[5] += change
    maker = Maker(graph=graph)
    made = maker.variable("constant", data=values)
    out = maker.variable("output", (64,), "int8", tensor=names["y"])
    maker.transfer(Descriptor("copy", Access(out, 0, (1,), (64,)), (Access(made, 0, (1,), (64,)),)))
    engine = maker.finish(inputs)
    found = check(engine, graph, maker.log())
    assert (found.num_tensors, found.num_failed) == (1, failed)


def test_a_check_applies_the_log_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Contents are not brought to the end before they are replayed from the beginning."""
    onnx.save(onnx.parser.parse_model(TEXT), tmp_path / "chain.onnx")
    applied: list[int] = []
    apply = ChipContents.apply

    def counted(contents: ChipContents, entry: int, undoable: bool) -> object:
        applied.append(entry)
        return apply(contents, entry, undoable)

    monkeypatch.setattr(ChipContents, "apply", counted)
    assert main(["run", str(tmp_path / "chain.onnx"), "--target", "neuroncore", "--check"]) == 0
    assert applied
    assert len(applied) == len(set(applied))
