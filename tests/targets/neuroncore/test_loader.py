"""Programs to NEFF and back: the same tables, the same digest, and one line for whatever does not fit."""

import dataclasses
from pathlib import Path

import ml_dtypes
import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npuviz.base.errors import FormatError, UsageError
from npuviz.formats.neff import check_neff, neff_from_bytes, neff_from_members, neff_to_bytes
from npuviz.formats.neff_model import Neff
from npuviz.formats.onnx_model import read_model
from npuviz.program.graph import Graph, Node
from npuviz.program.program import Note
from npuviz.program.tensor import Tensor
from npuviz.targets.neuroncore.assembler import assemble
from npuviz.targets.neuroncore.compiler.compile import compile_graph
from npuviz.targets.neuroncore.compiler.compiled import Compiled
from npuviz.targets.neuroncore.encoding import encode
from npuviz.targets.neuroncore.isa import NUM_ENGINES
from npuviz.targets.neuroncore.loader import has_own_encoding, load_compiled, neff_spec
from npuviz.targets.neuroncore.payload import Payload, fingerprint
from npuviz.targets.neuroncore.spec import make_spec
from npuviz.targets.neuroncore.tables import (
    ALLOCATION_DTYPE,
    SBUF,
    Access,
    Descriptor,
    Piece,
    QueueSet,
    Tables,
    Transfer,
    Variable,
)
from npuviz.targets.neuroncore.writer import compiled_neff
from tests.targets.neuroncore.random_programs import random_tables

SAMPLES = Path(__file__).parents[3] / "sample_models"
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


# --- a program with one of everything ----------------------------------------------------------

TEXTS = (
    ("PE nop wait:S9>=3 wait:E1==1\nPE end",),
    (
        "Activation table_load id=3",
        "Activation reg_move.r1 imm=#5",
        "Activation branch.r1 imm=#1 cmd=lt id=2",
    ),
    (
        "Pool dma_copy src1=i32:sbuf[0:8,0x0,1x1] imm=4 id=7 +software +gather_source",
        '    transfer queue=0 trigger="software DGE" semaphore=20',
        "    copy float32:sb[0x40,4x1,8x229376] <- float32:v0[0x0,4x1,8x4]",
        "Pool dma_trigger id=8",
    ),
    ("DVE memset f32:sbuf[0:128,0x100,4x1] imm=2.5 signal:S3++ signal@read:E1!",),
    ("SP dma_trigger id=0 signal:E4~", "SP dma_trigger id=0", "SP core_barrier"),
)


def everything() -> Compiled:
    """Two cores, static and dynamic transfers, computing descriptors, a host call, all kinds of data."""
    programs = [assemble("\n".join(lines))[0] for lines in TEXTS]
    empty = [np.zeros(0, programs[0].dtype)] * NUM_ENGINES
    host, _ = assemble("Host host_call id=1 signal:S9+=4")
    parts = [*programs, *empty[:4], assemble("SP dma_trigger id=0")[0], host]
    ends = np.cumsum([len(part) for part in parts])
    code = np.concatenate(parts)
    _, copies = assemble("\n".join(TEXTS[2]))
    bytes4 = Access(0, 0, (1,), (4,), "bool")
    static = Descriptor("copy", Access(SBUF, 8, (1,), (4,), "bool"), (bytes4,))
    halves = Access(2, 2, (1,), (2,), "bfloat16")
    scaled = Descriptor("fma", Access(1, 0, (1,), (4,), "float32"), (halves, halves), (1.5, -2.0))
    least = Descriptor(
        "min", Access(1, 4, (1,), (4,), "float32"), (Access(1, 0, (1,), (4,), "float32"),), (), 7.0
    )
    turned = Descriptor(
        "transpose", Access(1, 0, (1,), (8,)), (Access(0, 0, (1,), (8,)),), (), None, (2, 2, 1, 1), 2
    )
    transfers = (
        Transfer(8, 0, 1, (scaled, least, turned), "static", 21, 5, first_queue=True),
        dataclasses.replace(copies[0], id=7, queue=1),
        Transfer(0, 1, 2, (static,), "static", 3, remote_semaphores=(6, 7)),
        Transfer(0, 0, 0, (static, static), "static", 3),
    )
    queue_sets = (
        QueueSet(0, "qSP", 0, Engine.SP, 1, 3),
        QueueSet(1, "qPool", 0, Engine.POOL, 16, 20),
        QueueSet(2, "qSP", 1, Engine.SP, 3, -1),
    )
    text = np.array(["a", "bc"], object)
    variables = (
        Variable(0, "x", "input", 0, 32, "float32", (8,), None, 0),
        Variable(1, "y", "output", 64, 8, "float32", (2,), None, 1),
        Variable(2, "w", "constant", 128, 6, "bfloat16", (3,), np.arange(3).astype(ml_dtypes.bfloat16), 2),
        Variable(3, "w", "constant", 192, 4096, "float32", (1024,), np.broadcast_to(np.float32(2), (1024,))),
        Variable(4, "text", "constant", 4352, 16, "string", (2,), text, 3),
        Variable(5, "", "scratch", 4416, 0, "int64", (0,)),
    )
    attributes = {
        "axis": -1,
        "scale": 0.5,
        "limit": float("inf"),
        "mode": "x",
        "body": b"\0\xff",
        "list": [1, 2.0, "z"],
        "value": np.arange(4, dtype=np.int64).reshape(2, 2),
        "half": np.array([1.5], np.float16),
        "none": None,
    }
    graph = Graph(
        "one of each",
        (Node(0, "n0", "Add", "", (0, -1), (1,)), Node(1, "n1", "Odd", "ai.odd", (1, 2), (1,), attributes)),
        (
            Tensor(0, "x", (8,), "float32", "input"),
            Tensor(1, "y", (2,), "float32", "output", 1),
            Tensor(2, "w", (3,), "bfloat16", "weight"),
            Tensor(3, "text", (2,), "string", "weight"),
        ),
        (0,),
        (1,),
        {2: variables[2].data, 3: text},  # pyright: ignore[reportArgumentType]
        {"": 20},
        b"a model",
        ("something was assumed",),
    )
    nodes = np.arange(len(code), dtype=np.int32) % 3 - 1
    transfer_of = np.full(len(code), -1, np.int32)
    for index in range(len(code)):
        if code["opcode"][index] in (8, 9):
            core = 0 if index < ends[4] else 1
            keys = [(each.core, each.id) for each in transfers]
            transfer_of[index] = keys.index((core, int(code["id"][index])))
    return Compiled(
        graph,
        Tables(
            num_cores=2,
            instructions=code,
            sequencers=np.stack([ends - [len(part) for part in parts], ends], axis=1).astype(np.int64),
            nodes=nodes,
            tiles=nodes[::-1].copy(),
            transfer_of=transfer_of,
            transfers=transfers,
            queue_sets=queue_sets,
            variables=variables,
            pieces=(Piece(1, 3, 0, 4, 2, (0, 0, 0, 1)),),
            allocations=np.array([(1, 2, 64, 128, 32, 1, 0, 5)], ALLOCATION_DTYPE),
            outputs={1: 1},
            semaphore_uses={(0, 3): "DVE", (1, 3): "qSP"},
        ),
        notes=(Note("warning", "host-operator", "n1 runs on the Host", 1),),
        placement={0: "Core", 1: "Host"},
    )


LNC2, _ = make_spec("trn2", None, {"lnc": "2"})


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
    assert first.engines["Activation"].activation_sets == ("sqrt_and_others",)
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


def plain(neff: Neff) -> Neff:
    members = {name: data for name, data in neff.members.items() if not name.startswith("npuviz/")}
    return neff_from_members(members, neff.header, "m.neff")


def test_settings_of_a_plain_file() -> None:
    neff = plain(compiled_neff(everything(), LNC2, "all"))
    assert neff_spec(neff)[0].lnc == 2
    assert neff_spec(neff, "trn3")[0].arch == "trn3"
    with pytest.raises(UsageError, match="--set lnc=1: the file has 2 subgraphs"):
        neff_spec(neff, settings={"lnc": "1"})


# --- what does not fit -------------------------------------------------------------------------


def with_program(neff: Neff, member: str, text: str) -> Neff:
    """The NEFF with another program."""
    return with_member(neff, member, encode(*assemble(text)))


def with_member(neff: Neff, member: str, content: bytes) -> Neff:
    return neff_from_members({**neff.members, member: content}, neff.header, "m.neff")


@pytest.mark.parametrize(
    ("member", "text", "message"),
    [
        (
            "sg00/SP.bin",
            "SP dma_trigger id=5",
            r"sg00/SP\.bin, byte 0, dma_trigger: expected an id",
        ),
        (
            "sg00/SP.bin",
            "SP nop\nSP tensor_copy",
            r"byte 64, opcode: expected an instruction of SP",
        ),
        ("sg00/SP.bin", "SP nop wait:S256>=1", "wait: expected a number below 256, found 256"),
        ("sg00/SP.bin", "SP nop wait:E300==1", "wait: expected a number below 256, found 300"),
        ("sg00/SP.bin", "SP nop signal:S999++", "update: expected a number below 256"),
        ("sg00/SP.bin", "SP branch.r0 id=9", "id: expected an instruction of the program, found 9"),
        ("sg00/SP.bin", "SP reg_move.#70", "op0: expected a known operator, found 70"),
        ("sg00/Activation.bin", "Activation table_load id=21", "id: expected a known table set"),
        ("sg00/Activation.bin", "Activation activation.#99", "op0: expected a known operator, found 99"),
        ("npuviz/Host.bin", "Host host_call id=2", "id: expected a node of the graph, found 2"),
        (
            "sg00/DVE.bin",
            "DVE memset f32:sbuf[0:8,0x37ffd,1x1]",
            "dst: expected SBUF bytes within",
        ),
        ("sg00/DVE.bin", "DVE memset f32:psum[0:8,0x0,2x-1]", "dst: expected PSUM bytes within"),
        (
            "sg00/Pool.bin",
            'Pool dma_copy id=9\n    transfer queue=5 trigger="software DGE"',
            "queue: expected one of 2 queue sets, found 5",
        ),
        (
            "sg00/Pool.bin",
            "Pool dma_copy id=9\n    transfer\n    copy uint8:v9[0x0,4x1] <- uint8:v0[0x0,4x1]",
            "transfer 9: expected a declared variable, found var_id 10",
        ),
        (
            "sg00/Pool.bin",
            "Pool dma_copy id=9\n    transfer\n    copy uint8:sb[0x0,4x1] <- uint8:v0[0x1e,4x1]",
            "transfer 9: expected bytes inside x of 32 bytes, found bytes 30 to 33",
        ),
        (
            "sg00/Pool.bin",
            "Pool dma_copy id=9\n    transfer\n    copy uint8:sb[0x0,4x1] <- uint8:v0[0x0,3x1]",
            "transfer 9: expected equal byte counts, found 3 from, 4 to",
        ),
        (
            "sg00/Pool.bin",
            "Pool dma_copy id=9\n    transfer semaphore=700\n    copy uint8:sb[0x0,4x1] <- uint8:v0[0x0,4x1]",
            "transfer 9: expected a semaphore below 256",
        ),
        (
            "sg00/Pool.bin",
            "Pool dma_copy id=8\n    transfer",
            "dma id 8: expected one transfer of this id in a core, found two",
        ),
    ],
)
def test_linking_errors(member: str, text: str, message: str) -> None:
    neff = with_program(compiled_neff(everything(), LNC2, "all"), member, text)
    with pytest.raises(FormatError, match=message) as caught:
        load_compiled(neff, LNC2)
    assert str(caught.value).startswith("m.neff")


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("version", 2, r"program\.json\.version: expected 1, found 2; compile the model again"),
        ("queue_sets", [], r"queue_sets: expected those of def\.json"),
        ("queue_sets", [[0, "qSP"]], "ValueError"),
        ("transfers", [], "its transfers are not those of the engines"),
        ("dtypes", ["float32"], "ValueError"),
        ("outputs", [[1, 99]], "outputs name a tensor or variable"),
        ("outputs", [[0, 1]], "outputs name a tensor or variable"),
        ("pieces", [[1, 2]], "ValueError"),
        ("pieces", [[1, 999, 0, 0, 0, 0, 0, 0, 0]], "piece"),
        ("variables", [], "KeyError: 2"),
        ("variables", 7, "TypeError"),
        ("graph", {}, "KeyError"),
        ("notes", [["info"]], "ValueError"),
    ],
)
def test_a_wrong_record(key: str, value: object, message: str) -> None:
    neff = compiled_neff(everything(), LNC2, "all")
    record = orjson.loads(neff.members["npuviz/program.json"])
    neff = with_member(neff, "npuviz/program.json", orjson.dumps({**record, key: value}))
    with pytest.raises(FormatError, match=message):
        load_compiled(neff, LNC2)


@pytest.mark.parametrize(
    ("member", "content", "message"),
    [
        ("npuviz/nodes.npy", b"", "program.json"),
        ("npuviz/tiles.npy", b"\x93NUMPY\x01\x00\x05\x00{   }", "program.json"),
        ("sg00/constant2.npy", b"123", "program.json"),
    ],
)
def test_damaged_columns(member: str, content: bytes, message: str) -> None:
    neff = with_member(compiled_neff(everything(), LNC2, "all"), member, content)
    with pytest.raises(FormatError, match=message):
        load_compiled(neff, LNC2)


def test_another_number_of_cores() -> None:
    neff = compiled_neff(everything(), LNC2, "all")
    with pytest.raises(FormatError, match="expected 1 subgraphs, one for each core, found 2"):
        load_compiled(neff, make_spec("trn2")[0])


_RAW = bytes(compiled_neff(everything(), LNC2, "all").members["npuviz/program.json"])


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_damage_to_the_record_is_a_format_error(data: st.DataObject) -> None:
    raw = bytearray(_RAW)
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.sampled_from(b'0123456789-"[]{},:ax\0'))
    neff = with_member(compiled_neff(everything(), LNC2, "all"), "npuviz/program.json", bytes(raw))
    message = ""
    try:
        load_compiled(neff, neff_spec(neff)[0])
    except (FormatError, UsageError) as error:
        message = str(error)
    assert "\n" not in message


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_damage_to_a_program_is_a_format_error(data: st.DataObject) -> None:
    neff = compiled_neff(everything(), LNC2, "all")
    name = data.draw(
        st.sampled_from([f"sg00/{each}.bin" for each in ("PE", "Activation", "Pool", "DVE", "SP")])
    )
    raw = bytearray(neff.members[name])
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    message = ""
    try:
        load_compiled(with_member(neff, name, bytes(raw)), LNC2)
    except FormatError as error:
        message = str(error)
    assert not message or message.startswith("m.neff")


def test_the_checks_of_the_format_pass() -> None:
    for spec, compiled in (
        (LNC2, everything()),
        (make_spec()[0], Compiled(EMPTY, canonical(random_tables(LNC2, 1)))),
    ):
        assert [each.text for each in check_neff(again(compiled_neff(compiled, spec, "all")))] == []
