"""Containers `.rknn`: a model with three plans written and read, relocation, damage."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from npuviz.base.errors import FormatError
from npuviz.formats.rk3588 import tensor_layout as layout
from npuviz.formats.rk3588.regcmd.area import Area, read_regcmd
from npuviz.formats.rk3588.regcmd.stream import Stream, Tail, amount_of
from npuviz.formats.rk3588.registers import Word
from npuviz.formats.rk3588.rknn.blobs import (
    Plan,
    blob_of,
    plans,
    regcmd_area,
    relocate,
    task_table,
)
from npuviz.formats.rk3588.rknn.model import Relocation, Rknn, RknnGraph, RknnNode, RknnTensor
from npuviz.formats.rk3588.rknn.reader import is_rknn, parse_rknn, read_rknn
from npuviz.formats.rk3588.task_descriptors import Task, task_streams
from tests.formats.rk3588.cases import DATA, check_line, matmul_memory
from tests.formats.rk3588.rknn_writing import rknn_bytes, write_rknn
from tests.formats.rk3588.streams import convolution_task, pack_tasks, pooling_task, write_area

FEATURE, WEIGHT, OUTPUT = 0x1070, 0x1110, 0x4020
POOL = (Word(0x4001, 0, 0x600C), Word(0x4001, 0, 0x6070), Word(0x8001, 0, 0x701C))
NAMES = {FEATURE: "input", WEIGHT: "weight", OUTPUT: "output", 0x6070: "sync", 0x701C: "sync"}


def convolution() -> tuple[Word, ...]:
    """The body of the 4x64x16 product with addresses that count from 0, as files hold them."""
    (stream,) = read_regcmd(DATA / "regcmd" / "regcmd_fp16_4x64x16.txt").streams()
    return tuple(replace(word, value=0) if word.offset in NAMES else word for word in stream.words)


def streams() -> list[Stream]:
    """One task for one core; a convolution and a pooling task for each core of two and of three."""
    found: list[Stream] = []
    body = convolution()
    place = 0
    for plan in range(3):
        for _ in range(plan + 1):
            tail = Tail(0x0D)
            after = place + 112 * 8
            if plan:
                tail = Tail(0x0D, after, amount_of(len(POOL)), plan)
            found.append(Stream(body, tail, place))
            place = after
            if plan:
                found.append(Stream(POOL, Tail(0x60), place))
                place += 64
    return found


def container(**changes: object) -> Rknn:
    """A model with one matrix product in three plans."""
    area = write_area(tuple(streams()))
    tasks: list[Task] = []
    relocations: list[Relocation] = []
    cores = iter([0, 0, 0, 1, 1, 0, 0, 1, 1, 2, 2])
    for stream in streams():
        core = next(cores)
        make = pooling_task if stream.tail.enables == 0x60 else convolution_task
        task = make(stream, op_index=1)
        tasks.append(replace(task, address=0, offset=stream.address))
        for index, word in enumerate(stream.words):
            if word.offset in NAMES:
                offset = 256 * core if word.offset == OUTPUT else 0
                relocations.append(Relocation(NAMES[word.offset], offset, stream.address // 8 + index, core))
    memory = matmul_memory()
    graph = RknnGraph(
        tensors=(
            RknnTensor("none"),
            RknnTensor("input", 10, 1, (1, 36, 4, 1), (1, 8, 4, 1, 8), 512, 0),
            RknnTensor("weight", 10, 4, (16, 36, 1, 1), (1, 2, 1, 1, 16, 32), 2048, 0, 1),
            RknnTensor("output", 6, 2, (1, 16, 4, 1), (1, 4, 4, 1, 4), 256, 512),
            RknnTensor("sync", 3, 4, (1, 32, 1, 1), (1, 2, 1, 1, 16), 1024, 0, 2),
            RknnTensor("regcmd", 13, 9, blob=3),
            RknnTensor("task", 13, 10, blob=4),
        ),
        nodes=(
            RknnNode("InputOperator", "in", (), (1,), (0,) * 6),
            RknnNode("Conv", "conv", (1, 2, -1), (3,), (1, 2, 2, 2, 2, 2), b"\x05\0\0\0\0"),
            RknnNode("OutputOperator", "out", (3,), (), (0,) * 6),
        ),
        inputs=(1,),
        outputs=(3,),
        relocations=tuple(sorted(relocations, key=lambda entry: list(NAMES.values()).index(entry.tensor))),
        plan_starts=(0, 1, 5),
    )
    graph = replace(graph, **changes)
    blobs = (b"", bytes.fromhex(memory["weight_fp16_hex"]), bytes(1024), area.to_bytes(), pack_tasks(tasks))
    return Rknn(
        (graph,),
        blobs,
        platform="rk3588",
        compiler="2.3.2",
        source="ONNX",
        input_json='{"input": {}}',
        json={"target_platform": ["rk3588"], "tensors": 2},
    )


@cache
def image() -> bytes:
    return rknn_bytes(container())


def refused(act, *parts: str) -> None:
    with pytest.raises(FormatError) as error:
        act()
    check_line(error.value)
    for part in parts:
        assert part in str(error.value)


# --- what a container holds ------------------------------------------------------------------------


def test_written_and_read_again(tmp_path):
    path = tmp_path / "a.rknn"
    write_rknn(path, container())
    assert is_rknn(path.read_bytes()[:8])
    model = read_rknn(path)
    assert model == container()
    assert model.file == str(path)
    data = path.read_bytes()
    for offset, blob in zip(model.blob_offsets[1:], model.blobs[1:], strict=True):
        assert data[offset : offset + len(blob)] == blob


def test_tensors_and_weights():
    model = parse_rknn(image())
    (graph,) = model.graphs
    assert [(each.name, each.kind, each.dtype) for each in graph.tensors[1:4]] == [
        ("input", "input", "float16"),
        ("weight", "weight", "float16"),
        ("output", "output", "float32"),
    ]
    weight, sync = (each for each in graph.tensors if each.kind in ("weight", "constant"))
    packed = np.frombuffer(blob_of(model, weight), np.float16)
    kernels = layout.unpack_weights(packed, layout.WeightShape(16, 64), 16)
    np.testing.assert_array_equal(kernels[:, :36, 0, 0], np.array(matmul_memory()["B"], np.float16))
    assert len(blob_of(model, sync)) == sync.size
    assert RknnTensor("a", 99, 98).dtype == "code 99"
    assert RknnTensor("a", 99, 98).kind == "code 98"


def test_the_three_plans():
    model = parse_rknn(image())
    (graph,) = model.graphs
    one, two, three = plans(model, graph)
    assert one == Plan(1, (range(1),), (((1, 0, 1),),))
    assert two.tasks == (range(1, 3), range(3, 5))
    assert three.tasks == (range(5, 7), range(7, 9), range(9, 11))
    assert three.nodes == (((1, 5, 2),), ((1, 7, 2),), ((1, 9, 2),))
    table = task_table(model, graph)
    found = task_streams(table, regcmd_area(model, graph))
    assert [stream.tail.enables for stream in found] == [0x0D] + [0x0D, 0x60] * 5
    assert [found[each.tasks[0].start].tail.plan for each in (one, two, three)] == [0, 1, 2]
    chain = regcmd_area(model, graph).chain(table[3].start, table[3].amount)
    assert chain.streams == found[3:5]
    assert chain.findings == ()


def test_files_that_do_not_say_have_one_plan():
    model = container(plan_starts=())
    assert plans(model, model.graphs[0]) == (Plan(1, (range(11),), ((),)),)


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"plan_starts": (0, 1, 6)}, ("plan for 3 cores", "tasks 0 to 10", "tasks 6 to 11")),
        ({"plan_starts": (-1, 1, 5)}, ("plan for 1 cores",)),
        ({"nodes": (RknnNode("Conv", "c", task_counts=(1, 2)),)}, ("node 'c', task_counts", "6 numbers")),
        ({"nodes": (RknnNode("Conv", "c", task_counts=(1, 2, 2, 2, 2, -2)),)}, ("from 0 on",)),
    ],
)
def test_plans_that_contradict_the_table(changes, parts):
    model = container(**changes)
    refused(lambda: plans(model, model.graphs[0]), *parts)


# --- relocation --------------------------------------------------------------------------------------

ADDRESSES = {"input": 0xFFFF8000, "weight": 0xFFFF9000, "output": 0xFFFFA000, "sync": 0x1000}


def test_relocated_words_are_those_of_the_dump():
    model = parse_rknn(image())
    (graph,) = model.graphs
    before = regcmd_area(model, graph)
    base = 0xFFF00000
    area = relocate(model, graph, ADDRESSES, base)
    tasks = task_table(model, graph)
    (dump,) = read_regcmd(DATA / "regcmd" / "regcmd_fp16_4x64x16.txt").streams()
    assert area.stream(base + tasks[0].start, 104).words == dump.words
    chain = area.chain(base + tasks[9].start)
    assert [stream.address - base for stream in chain.streams] == [tasks[9].start, tasks[10].start]
    for stream, offset, value in zip(
        chain.streams, (OUTPUT, 0x6070), (ADDRESSES["output"] + 512, 0x1000), strict=True
    ):
        assert [word.value for word in stream.words if word.offset == offset][-1] == value
    changed = int(np.count_nonzero(area.words != before.words))
    assert changed == len(graph.relocations) + 5  # a tail with a next address for each pooling task
    assert before.words.tolist() == regcmd_area(model, graph).words.tolist()


@pytest.mark.parametrize(
    ("entry", "parts"),
    [
        (Relocation("input", 0, 99999), ("relocation of 'input' at word 99999", "a word of the area")),
        (Relocation("input", 0, 1), ("at word 1", "holds an address", "CNA CONV_CON1")),
        (Relocation("input", 0, 112), ("at word 112", "holds an address", "DPU S_POINTER")),
        (Relocation("other", 0, 21), ("at word 21", "an address for the tensor")),
        (Relocation("input", 0x8000, 21), ("below 2^32", "0x100000000")),
        (Relocation("sync", 4, 225), ("a multiple of 16", "0x1004")),
        (Relocation("input", 0, 106), ("holds an address", "MARKER MARK")),
    ],
)
def test_relocations_that_cannot_be(entry, parts):
    model = container(relocations=(entry,))
    refused(lambda: relocate(model, model.graphs[0], ADDRESSES, 0), *parts)


def test_an_area_base_over_32_bits():
    model = container()
    refused(lambda: relocate(model, model.graphs[0], ADDRESSES, 1 << 32), "next address", "below 2^32")


# --- containers that are none --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "parts"),
    [
        (b"", ("byte 0, header", "64 bytes")),
        (b"RKNN", ("header",)),
        (b"CYPTRKNN" + bytes(100), ("byte 0, signature", "an encrypted model")),
        (b"ONNX" + bytes(100), ("byte 0, signature", "expected RKNN")),
        (b"RKNN" + bytes(4) + bytes([5]) + bytes(100), ("byte 8, version: expected 6, found 5",)),
        (b"RKNN" + b"\1\0\0\0" + bytes([6]) + bytes(100), ("byte 4, header",)),
        (b"RKNN" + bytes(4) + bytes([6]) + bytes(100), ("byte 16, payload size", "found 0")),
        (b"RKNN" + bytes(4) + b"\6" + bytes(7) + b"\xff" * 8 + bytes(40), ("byte 16, payload size",)),
    ],
)
def test_headers(data, parts):
    refused(lambda: parse_rknn(data, "a.rknn"), "a.rknn, ", *parts)


def test_identifier_of_the_payload():
    data = bytearray(image())
    data[0x44:0x48] = b"TFL3"
    refused(lambda: parse_rknn(bytes(data)), "byte 68, FlatBuffer, identifier", "b'TFL3'")


@pytest.mark.parametrize(
    ("document", "part"), [(b"{", "JSON"), (b"[1]", "an object"), (b"{}" * 2, "JSON"), (b"{\xff:1}", "JSON")]
)
def test_trailing_document(document, part):
    data = image()
    size = int.from_bytes(data[16:24], "little")
    damaged = data[: 64 + size] + len(document).to_bytes(8, "little") + document
    refused(lambda: parse_rknn(damaged), part)


def test_missing_and_doubled_parts():
    model = container(tensors=(RknnTensor("a"),), nodes=(), inputs=(), outputs=(), relocations=())
    refused(lambda: regcmd_area(model, model.graphs[0]), "one tensor of kind regcmd", "found 0")
    two = container(tensors=(RknnTensor("a", 13, 10), RknnTensor("b", 13, 10)))
    refused(lambda: task_table(two, two.graphs[0]), "one tensor of kind task", "found 2")
    lost = container(tensors=(RknnTensor("task", 13, 10, blob=9),))
    refused(lambda: task_table(lost, lost.graphs[0]), "tensor 'task', blob", "0 to 4")


def test_task_table_that_points_outside_of_the_area():
    model = container()
    tasks = list(task_table(model, model.graphs[0]))
    tasks[2] = replace(tasks[2], offset=1 << 20)
    model = replace(model, blobs=(*model.blobs[:4], pack_tasks(tasks)))
    read = parse_rknn(rknn_bytes(model), "a.rknn")
    (graph,) = read.graphs
    refused(
        lambda: task_streams(task_table(read, graph), regcmd_area(read, graph)),
        f"a.rknn, byte {read.blob_offsets[3]}, task 2, regcmd_addr + regcfg_offset",
        "0x100000",
    )


def test_values_that_cannot_be_written():
    refused(lambda: rknn_bytes(container(plan_starts=(1 << 40,))), "payload", "values that fit")
    refused(lambda: rknn_bytes(replace(container(), json={"a": object()})), "payload")


@pytest.mark.parametrize("index", [-2, 7])
def test_nodes_name_tensors_that_exist(index):
    model = container(nodes=(RknnNode("Conv", "c", (index,)),))
    refused(lambda: parse_rknn(rknn_bytes(model)), "nodes[0].inputs", "tensors 0 to 6", str(index))


def test_tables_that_share_data_do_not_unfold_without_end():
    """A vector of many tables at one place, each with a long name: small file, huge result."""
    name = "n" * 50_000
    data = bytearray(rknn_bytes(container(nodes=tuple(RknnNode("Conv", name) for _ in range(5)))))
    assert parse_rknn(bytes(data)).graphs[0].nodes[4].name == name
    one = bytearray(rknn_bytes(container(nodes=(RknnNode("Conv", name), *[RknnNode("X", "x")] * 2_000))))
    payload = memoryview(one)[64:]
    words = np.frombuffer(payload[: len(payload) // 4 * 4], "<u4").copy()
    (place,) = np.flatnonzero(words == 2_001)[:1]
    first = place + 1
    target = int(words[first]) + 4 * first
    for index in range(2_001):
        words[first + index] = target - 4 * (first + index)
    one[64 : 64 + 4 * len(words)] = words.tobytes()
    refused(lambda: parse_rknn(bytes(one)), "tables that share more data than there is")


# --- damage --------------------------------------------------------------------------------------------


def use(data: bytes) -> bool:
    """Whether the bytes are a model of which all can be asked; only a FormatError of one line may come."""
    try:
        model = parse_rknn(data, "a.rknn")
        for graph in model.graphs:
            for tensor in graph.tensors:
                if tensor.kind in ("weight", "constant"):
                    blob_of(model, tensor)
            plans(model, graph)
            task_streams(task_table(model, graph), regcmd_area(model, graph))
            relocate(model, graph, ADDRESSES, 0x1000)
    except FormatError as error:
        check_line(error)
        return False
    return True


def test_cut_at_every_byte():
    data = image()
    assert use(data)
    # The area of registers is the bulk; cuts in it are all alike, so every 7th byte is enough there.
    model = parse_rknn(data)
    area = range(model.blob_offsets[3] + 8, model.blob_offsets[3] + len(model.blobs[3]))
    ends = [end for end in range(len(data)) if end not in area or end % 7 == 0]
    assert [end for end in ends if use(data[:end])] == []


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_flipped_bits(data):
    damaged = bytearray(image())
    model = parse_rknn(image())
    tables = [
        place
        for place in range(len(damaged))
        if not model.blob_offsets[3] < place < model.blob_offsets[3] + 8000
    ]
    for _ in range(data.draw(st.integers(1, 3))):
        place = tables[data.draw(st.integers(0, len(tables) - 1))]
        damaged[place] ^= 1 << data.draw(st.integers(0, 7))
    use(bytes(damaged))


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=200))
def test_random_payloads(data):
    payload = b"\x10\0\0\0RKNN" + data
    header = b"RKNN" + bytes(4) + (6).to_bytes(8, "little") + len(payload).to_bytes(8, "little")
    use(header.ljust(64, b"\0") + payload + (2).to_bytes(8, "little") + b"{}")


def test_area_of_a_container_without_whole_words():
    model = container()
    model = replace(model, blobs=(*model.blobs[:3], model.blobs[3][:-1], model.blobs[4]))
    refused(lambda: regcmd_area(model, model.graphs[0]), "whole words")
    assert isinstance(regcmd_area(container(), container().graphs[0]), Area)
