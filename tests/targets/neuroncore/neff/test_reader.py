"""Programs to NEFF and back: the same tables, the same digest, and one line for whatever does not fit."""

import dataclasses
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from npuviz.base.errors import UsageError
from npuviz.formats.neff.debug import ancestors, check_debug, debug_records, engine_instructions
from npuviz.formats.neff.file import neff_from_bytes, neff_from_members, neff_to_bytes
from npuviz.formats.neff.model import Neff
from npuviz.formats.neff.rules.check import check_neff
from npuviz.onnx.reader import read_model
from npuviz.program.graph import Graph
from npuviz.program.program import Note
from npuviz.targets.neuroncore.compiler.compile import compile_graph
from npuviz.targets.neuroncore.compiler.compiled import Compiled
from npuviz.targets.neuroncore.isa import ENGINE_NAMES
from npuviz.targets.neuroncore.machine.payload import Payload, fingerprint
from npuviz.targets.neuroncore.neff.reader import has_own_encoding, load_compiled, neff_spec
from npuviz.targets.neuroncore.neff.writer import compiled_neff
from npuviz.targets.neuroncore.spec import make_spec
from npuviz.targets.neuroncore.tables import (
    Tables,
)
from tests.targets.neuroncore.every_kind import LNC2, everything
from tests.targets.neuroncore.random_programs import random_tables

SAMPLES = Path(__file__).parents[4] / "sample_models"
EMPTY = Graph("empty", (), (), (), ())
ARRAYS = ("instructions", "sequencers", "nodes", "tiles", "transfer_of", "allocations")


def again(neff: Neff) -> Neff:
    """The NEFF as its file gives it back."""
    return neff_from_bytes(neff_to_bytes(neff), "m.neff")


def same(left: Compiled, right: Compiled) -> None:
    """Assert that two programs are equal in everything."""
    for field in dataclasses.fields(Tables):
        if field.name in ARRAYS:
            assert getattr(left.tables, field.name).dtype == getattr(right.tables, field.name).dtype
            assert np.array_equal(getattr(left.tables, field.name), getattr(right.tables, field.name))
        elif field.name != "variables":
            assert getattr(left.tables, field.name) == getattr(right.tables, field.name)
    for one, other in zip(left.tables.variables, right.tables.variables, strict=True):
        assert dataclasses.replace(one, data=None) == dataclasses.replace(other, data=None)
        same_array(one.data, other.data)
    for name in ("name", "tensors", "inputs", "outputs", "opsets", "source", "assumptions"):
        assert getattr(left.graph, name) == getattr(right.graph, name)
    for one, other in zip(left.graph.nodes, right.graph.nodes, strict=True):
        assert dataclasses.replace(one, attributes={}) == dataclasses.replace(other, attributes={})
        assert repr(one.attributes) == repr(other.attributes)
    assert left.graph.constants.keys() == right.graph.constants.keys()
    for tensor, array in left.graph.constants.items():
        same_array(array, right.graph.constants[tensor])
    assert (left.memory_map, left.placement) == (right.memory_map, right.placement)


def same_array(left: np.ndarray | None, right: np.ndarray | None) -> None:
    assert (left is None) == (right is None)
    if left is None or right is None:
        return
    assert (left.dtype, left.shape) == (right.dtype, right.shape)
    assert left.tolist() == right.tolist()
    if left.size > 1:
        assert any(left.strides) == any(right.strides)


def digest(compiled: Compiled) -> str:
    return fingerprint(Payload(compiled.tables), compiled.graph, "")


@pytest.mark.parametrize("model", ["tiny_cnn", "tiny_transformer"])
@pytest.mark.parametrize(("preset", "dtype"), [("trn2", "fp32"), ("trn1", "bf16"), ("inf1", "fp16")])
def test_compiled_models_come_back(model: str, preset: str, dtype: str) -> None:
    spec, _ = make_spec(preset, None, {"dtype": dtype})
    compiled = compile_graph(read_model(SAMPLES / f"{model}.onnx"), spec)
    notes = (Note("info", "assumed", "something"),)
    neff = again(compiled_neff(compiled, spec, model, notes))
    assert has_own_encoding(neff)
    assert neff_spec(neff) == (spec, ())
    loaded = load_compiled(neff, spec)
    same(compiled, loaded)
    assert loaded.notes == (*notes, *compiled.notes)
    assert digest(loaded) == digest(compiled)


def canonical(tables: Tables) -> Tables:
    """The tables with ids of triggers, and with zeros where nothing is kept, as the encoding has them."""
    code = tables.instructions.copy()
    triggers = tables.transfer_of >= 0
    code["id"][triggers] = [tables.transfers[each].id for each in tables.transfer_of[triggers]]
    code["operands"][code["operands"]["space"] == 0] = 0
    return dataclasses.replace(tables, instructions=code)


@pytest.mark.parametrize("seed", range(12))
def test_random_programs_come_back(seed: int) -> None:
    spec, _ = make_spec(("trn2", "trn1", "trn3")[seed % 3])
    compiled = Compiled(EMPTY, canonical(random_tables(spec, seed)))
    neff = again(compiled_neff(compiled, spec, "random"))
    assert neff.warnings == ()
    same(compiled, load_compiled(neff, spec))


def test_one_of_everything_comes_back() -> None:
    compiled = everything()
    neff = again(compiled_neff(compiled, LNC2, "all"))
    assert [each for each in neff.warnings if each.severity == "error"] == []
    loaded = load_compiled(neff, LNC2)
    same(compiled, loaded)
    assert loaded.notes == compiled.notes
    assert digest(loaded) == digest(compiled)
    assert neff_spec(neff)[0] == LNC2


def test_what_another_tool_sees() -> None:
    """Constants, names, queue sets and table sets stand in the vendor's own places."""
    neff = again(compiled_neff(everything(), LNC2, "all"))
    assert (neff.target, neff.header.lnc_size, len(neff.subgraphs)) == ("cayman", 2, 2)
    first, second = neff.subgraphs
    assert first.variables["SB"].type == "state-buffer"
    assert first.variables["w"].file_name == "constant2.npy"
    assert first.variables["w#3"].size == 4096
    assert {name: each.type for name, each in first.queue_sets.items()} == {"qSP": "data", "qPool": "dynamic"}
    assert first.queue_sets["qPool"].semaphore_set == (20,) * 16
    assert first.engines["Activation"].extra["activation_function_sets"] == ["sqrt_and_others"]
    assert [entry.semaphore for entry in first.engines["SP"].descriptors] == [None, 3]
    assert second.engines["SP"].descriptors[0].remote_semaphores == (6, 7)
    assert set(second.variables) == {"SB", "x"}
    data = np.frombuffer(first.files["constant2.npy"], np.uint16)[-3:]
    assert data.view(ml_dtypes.bfloat16).tolist() == [0, 1, 2]


def test_without_the_record_the_machine_program_is_the_same() -> None:
    """Static descriptors and programs alone: what another tool could have written."""
    spec, _ = make_spec("trn1")
    compiled = compile_graph(read_model(SAMPLES / "tiny_cnn.onnx"), spec)
    neff = plain(compiled_neff(compiled, spec, "cnn"))
    assert neff_spec(neff)[0] == spec
    loaded = load_compiled(neff, spec)
    assert np.array_equal(loaded.tables.instructions, compiled.tables.instructions)
    assert np.array_equal(loaded.tables.sequencers, compiled.tables.sequencers)
    names = [each.name for each in compiled.graph.tensors if each.kind in ("input", "output")]
    assert [each.name for each in loaded.graph.tensors] == names
    assert loaded.graph.tensors[0].shape == compiled.graph.tensors[0].shape
    assert loaded.graph.nodes == ()
    (output,) = loaded.tables.outputs.values()
    assert loaded.tables.variables[output].name == names[1]
    for index in np.flatnonzero(compiled.tables.transfer_of >= 0).tolist():
        mine = compiled.tables.transfers[int(compiled.tables.transfer_of[index])]
        other = loaded.tables.transfers[int(loaded.tables.transfer_of[index])]
        assert (mine.id, mine.semaphore) == (other.id, other.semaphore)
        assert compiled.tables.queue_sets[mine.queue].name == loaded.tables.queue_sets[other.queue].name
        for one, two in zip(mine.descriptors, other.descriptors, strict=True):
            assert (one.op, one.to.steps, one.to.sizes) == (two.op, two.to.steps, two.to.sizes)
    constants = {each.name: each for each in loaded.tables.variables if each.kind == "constant"}
    for each in compiled.tables.variables:
        if each.kind == "constant" and each.data is not None:
            assert constants[each.name].shape == each.shape
            assert constants[each.name].data is not None
            assert np.array_equal(constants[each.name].data, each.data)  # pyright: ignore[reportArgumentType]


def test_debug_records_name_instructions_and_slots() -> None:
    spec, _ = make_spec("trn2")
    compiled = compile_graph(read_model(SAMPLES / "tiny_cnn.onnx"), spec)
    neff = again(compiled_neff(compiled, spec, "cnn"))
    assert check_debug(neff) == ()
    tables = compiled.tables
    for number, name in enumerate(ENGINE_NAMES[:-1]):
        first, end = tables.sequencers[number].tolist()
        found = engine_instructions(neff.subgraphs[0], name)
        assert [each.record.id - 1 for each in found if each.record] == list(range(first, end))
        assert sum(each.slot_count for each in found) == neff.subgraphs[0].engines[name].slot_count
    record = engine_instructions(neff.subgraphs[0], "SP")[0].record
    assert record is not None
    assert record.name == f"I-{tables.sequencers[4, 0]}-dma_trigger"
    level = debug_records(neff.subgraphs[0], "SP")
    origins = [each.name for _, each in ancestors(neff, level, record)]
    assert origins == [compiled.graph.nodes[tables.nodes[record.id - 1]].name]


def plain(neff: Neff) -> Neff:
    members = {name: data for name, data in neff.members.items() if not name.startswith("npuviz/")}
    return neff_from_members(members, neff.header, "m.neff")


def test_settings_of_a_plain_file() -> None:
    neff = plain(compiled_neff(everything(), LNC2, "all"))
    assert neff_spec(neff)[0].lnc == 2
    assert neff_spec(neff, "trn3")[0].arch == "trn3"
    with pytest.raises(UsageError, match="--set lnc=1: the file has 2 subgraphs"):
        neff_spec(neff, settings={"lnc": "1"})


def test_the_checks_of_the_format_pass() -> None:
    for spec, compiled in (
        (LNC2, everything()),
        (make_spec()[0], Compiled(EMPTY, canonical(random_tables(LNC2, 1)))),
    ):
        assert [each.text for each in check_neff(again(compiled_neff(compiled, spec, "all")))] == []
