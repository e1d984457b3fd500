"""Dumps and .rknn containers as programs: loaded, run, written, and refused."""

import os
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from npuviz.base.errors import FormatError, NpuvizError, TargetError, UsageError
from npuviz.base.progress import NoProgress
from npuviz.formats.rk3588.regcmd.area import read_regcmd
from npuviz.formats.rk3588.regcmd.dump import format_plain
from npuviz.formats.rk3588.registers import Word
from npuviz.sim.stop import NO_STOPS, StopKind
from npuviz.sim.target import LoadRequest
from npuviz.targets.rk3588.compiler.compiled import Compiled
from npuviz.targets.rk3588.compiler.writer import stream_words, write_compiled
from npuviz.targets.rk3588.load.loader import load_file
from npuviz.targets.rk3588.machine.machine import RknnMachine
from npuviz.targets.rk3588.spec import RknnSpec
from npuviz.targets.rk3588.tables import Tables
from npuviz.targets.rk3588.target import TARGET
from tests.formats.rk3588.rknn_writing import rknn_bytes, write_rknn
from tests.formats.rk3588.streams import chain_streams, format_columns, write_area
from tests.targets.rk3588.load import rknn_cases

DUMPS = sorted((rknn_cases.DATA / "regcmd").glob("*.txt"))
SPEC = RknnSpec()
FOREVER = 1 << 40


@pytest.mark.parametrize("dump", DUMPS, ids=lambda path: path.stem)
def test_a_dump_is_known_by_its_content(dump: Path, tmp_path: Path) -> None:
    head = dump.read_bytes()[:4096]
    assert TARGET.accepts(tmp_path / "any name.txt", head)
    assert TARGET.accepts(tmp_path / "plain.TXT", b"\n# words\n0x0201100C00000010\n")
    for other in (b"", b"# words\n", b"12 apples\n", b"0123456789abcdef0 too long\n", b"\xff\xfe\x00"):
        assert not TARGET.accepts(tmp_path / "notes.txt", other)
    assert not TARGET.accepts(tmp_path / "model.json", head)


def machine_of(path: Path, **set_: str) -> RknnMachine:
    spec, program = TARGET.load(LoadRequest(path, settings=set_), NoProgress())
    machine = TARGET.build(spec, program)
    assert isinstance(machine, RknnMachine)
    return machine


def texts(compiled: Compiled) -> list[str]:
    return [note.text for note in compiled.notes]


def product_words() -> tuple[Word, ...]:
    """The body of the small public product."""
    (stream,) = read_regcmd(rknn_cases.DATA / "regcmd" / "regcmd_fp16_4x64x16.txt").streams()
    return stream.words


# --- dumps -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["x.regcmd", "x.regcmd.txt", "x.txt"])
@pytest.mark.parametrize("dump", DUMPS, ids=lambda path: path.stem)
def test_words_survive_load_and_write(dump: Path, name: str, tmp_path: Path) -> None:
    compiled = load_file(dump, SPEC)
    sentence = write_compiled(compiled, tmp_path / name)
    assert "1 register command stream" in sentence
    assert [path.name for path in tmp_path.iterdir()] == [name]
    original = read_regcmd(dump).words
    np.testing.assert_array_equal(read_regcmd(tmp_path / name).words, original)
    again = load_file(tmp_path / name, SPEC)
    assert again.tables.tasks[0].registers == compiled.tables.tasks[0].registers
    assert again.tables.tasks[0].work == compiled.tables.tasks[0].work


@pytest.mark.parametrize("dump", DUMPS, ids=lambda path: path.stem)
def test_dumps_run_to_the_end(dump: Path) -> None:
    path = dump
    compiled = load_file(path, SPEC)
    (task,) = compiled.tables.tasks
    assert (task.core, task.job, task.enable_mask, task.interrupt_mask) == (0, 0, 0x0D, 0x300)
    starts = [buffer.address for buffer in compiled.tables.buffers]
    assert starts == sorted(starts)
    assert texts(compiled)[0].startswith("inputs, weights and operands are zeros")
    stop = machine_of(path).advance(FOREVER, NO_STOPS, None)
    assert stop.kind is StopKind.FINISHED


def test_ranges_are_the_buffers_of_a_dump() -> None:
    compiled = load_file(rknn_cases.DATA / "regcmd" / "regcmd_fp16_4x64x16.txt", SPEC)
    found = {buffer.name: buffer for buffer in compiled.tables.buffers}
    features, weights = found["features of task 0"], found["weights of task 0"]
    output = found["output of task 0"]
    assert (features.address, features.size_bytes, features.shape) == (0xFFFF8000, 512, (1, 64, 4, 1))
    assert (features.layout, features.dtype) == ("feature", "float16")
    assert (weights.address, weights.size_bytes, weights.layout) == (0xFFFF9000, 2048, "weight")
    assert (output.address, output.size_bytes, output.dtype) == (0xFFFFA000, 256, "float32")
    commands = found["register commands"]
    assert commands.layout == "stream"
    assert commands.data is not None
    assert commands.data.tobytes() == compiled.tables.tasks[0].words.tobytes()


def test_a_dump_computes_what_memory_says() -> None:
    memory = rknn_cases.memory()
    machine = machine_of(rknn_cases.DATA / "regcmd" / "regcmd_fp16_4x64x16.txt")
    ddr = SPEC.cores
    machine.write_memory(ddr, 0xFFFF8000, bytes.fromhex(memory["feature_fp16_hex"]))
    machine.write_memory(ddr, 0xFFFF9000, bytes.fromhex(memory["weight_fp16_hex"]))
    assert machine.read_memory(ddr, 0xFFFFA000, 256) == bytes(256)
    machine.advance(FOREVER, NO_STOPS, None)
    assert machine.read_memory(ddr, 0xFFFFA000, 256) == bytes.fromhex(memory["output_fp32_hex"])


def test_sizes_that_leave_the_address_space_are_said_and_run() -> None:
    path = rknn_cases.DATA / "regcmd" / "regcmd_int8_512x512x512.txt"
    compiled = load_file(path, SPEC)
    assert any("leaves the 32-bit address space" in text for text in texts(compiled))
    assert max(b.address + b.size_bytes for b in compiled.tables.buffers) <= 1 << 32
    machine = machine_of(path)
    assert machine.advance(FOREVER, NO_STOPS, None).kind is StopKind.FINISHED
    machine.values()
    machine.read_memory(SPEC.cores, 0, 16)
    assert [hazard.kind for hazard in machine.values().hazards] == ["fault"]


def test_chains_run_in_the_order_of_their_tails(tmp_path: Path) -> None:
    body = product_words()
    base = 0x2000_0000
    chained = chain_streams(((body, 0x0D), (body[:5], 0x0D), (body[:7], 0x0D)), address=base)
    path = tmp_path / "chain.regcmd.txt"
    path.write_text(format_columns(write_area(chained, address=base).words, ("three",)))
    compiled = load_file(path, SPEC)
    assert [task.stream for task in compiled.tables.tasks] == [stream.address for stream in chained]
    assert {task.job for task in compiled.tables.tasks} == {0}
    assert compiled.tables.num_jobs == 1
    # The third task has the registers of the first group, which the first one wrote.
    first, second, third = compiled.tables.tasks
    assert third.work == first.work
    assert second.work.convolution != first.work.convolution
    assert third.changed == frozenset(word.offset for word in body[:7])
    assert not [text for text in texts(compiled) if "stream" in text and "leads" in text]


def test_chains_that_break_the_rules_are_said(tmp_path: Path) -> None:
    body = product_words()
    one, two = chain_streams(((body, 0x0D), (body, 0x0D)), address=64)
    back = replace(two, tail=replace(two.tail, next_address=64, next_amount=3))
    path = tmp_path / "loop.regcmd"
    path.write_bytes(write_area((one, back), address=64).to_bytes())
    compiled = load_file(path, SPEC)
    assert len(compiled.tables.tasks) == 2
    assert any("announces amount 3, the next has 53" in text for text in texts(compiled))
    assert any("leads back to stream 0" in text for text in texts(compiled))
    out = replace(two, tail=replace(two.tail, next_address=0x9990, next_amount=3))
    path.write_bytes(write_area((one, out), address=64).to_bytes())
    assert any("leads to 0x9990" in text for text in texts(load_file(path, SPEC)))


def test_streams_without_links_are_jobs(tmp_path: Path) -> None:
    words = read_regcmd(DUMPS[0]).words
    path = tmp_path / "two.txt"
    path.write_text(format_plain(np.concatenate([words, words])))
    compiled = load_file(path, SPEC)
    assert [(task.job, task.core) for task in compiled.tables.tasks] == [(0, 0), (1, 0)]
    assert compiled.tables.tasks[1].stream - compiled.tables.tasks[0].stream == 8 * len(words)


def test_a_stream_that_starts_nothing_hangs(tmp_path: Path) -> None:
    (stream,) = chain_streams(((product_words(), 0),))
    path = tmp_path / "nothing.regcmd"
    path.write_bytes(write_area((stream,)).to_bytes())
    stop = machine_of(path).advance(FOREVER, NO_STOPS, None)
    assert stop.kind is StopKind.HANG
    assert "enables no block" in stop.detail


@pytest.mark.parametrize(
    ("data", "parts"),
    [
        (b"", ("at least one stream",)),
        (bytes(64), ("at least one stream",)),
        (b"\x01" * 12, ("whole words of 8 bytes",)),
        (b"hello\n", ("line 1", "16 hexadecimal digits")),
        (b"1001000000004020\n" * 4, ("stream tail", "no tail in 4 words")),
        (b"2222000000004020\n0041000000000000\n0081000000000008\n" * 2, ("stream tail",)),
        (b"10010000000041f0\n0000000000000000\n0101000000000014\n0041000000000000\n00810000000d0008\n",
         ("register 0x41f0", "DPU")),
        (b"7777000000004020\n0000000000000000\n0101000000000014\n0041000000000000\n00810000000d0008\n",
         ("target", "7777")),
    ],
)  # fmt: skip
def test_dumps_that_are_none(data: bytes, parts: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "bad.regcmd"
    path.write_bytes(data)
    with pytest.raises(FormatError) as error:
        load_file(path, SPEC)
    assert "\n" not in str(error.value)
    for part in ("bad.regcmd", *parts):
        assert part in str(error.value)


def test_missing_files_and_folders(tmp_path: Path) -> None:
    for path in (tmp_path / "no.regcmd", tmp_path, tmp_path / "no.rknn"):
        with pytest.raises(FormatError):
            load_file(path, SPEC)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(edits=st.lists(st.tuples(st.integers(0, 103), st.integers(0, (1 << 32) - 1)), max_size=4))
def test_damaged_registers_never_break_the_loader(edits: list[tuple[int, int]], tmp_path: Path) -> None:
    words = list(read_regcmd(DUMPS[0]).words.tolist())
    for index, value in edits:
        words[index] = words[index] & ~(0xFFFFFFFF << 16) | value << 16
    path = tmp_path / "damaged.regcmd"
    path.write_bytes(np.array(words, "<u8").tobytes())
    try:
        compiled = load_file(path, SPEC)
    except FormatError:
        return
    assert sum(buffer.size_bytes for buffer in compiled.tables.buffers) < 1 << 30
    assert all(b.address >= 0 and b.address + b.size_bytes <= 1 << 32 for b in compiled.tables.buffers)
    _, program = TARGET.load(LoadRequest(path), NoProgress())
    program.listing.describe(0)


# --- writer ------------------------------------------------------------------------------------------


def test_programs_without_tasks_and_places_that_cannot_be_written(tmp_path: Path) -> None:
    compiled = load_file(DUMPS[0], SPEC)
    empty = replace(compiled, tables=Tables(1, (), (), 0))
    with pytest.raises(TargetError, match="nothing to write"):
        write_compiled(empty, tmp_path / "x.regcmd")
    for out in (tmp_path, tmp_path / "no" / "x.regcmd", Path(os.devnull)):
        with pytest.raises(UsageError, match="cannot write"):
            write_compiled(compiled, out)
    assert list(tmp_path.iterdir()) == []


def test_streams_start_at_lines_of_64_bytes() -> None:
    compiled = load_file(DUMPS[0], SPEC)
    (task,) = compiled.tables.tasks
    short = replace(task, words=task.words[:9])
    tables = replace(compiled.tables, tasks=(short, replace(short, index=1)))
    words = stream_words(replace(compiled, tables=tables))
    assert len(words) == 32
    np.testing.assert_array_equal(words[16:25], short.words)
    assert not words[25:].any()


# --- containers --------------------------------------------------------------------------------------


@pytest.fixture
def container(tmp_path: Path) -> Path:
    path = tmp_path / "product.rknn"
    write_rknn(path, rknn_cases.container())
    return path


@pytest.mark.parametrize(("cores", "tasks"), [(1, 1), (2, 4), (3, 6)])
def test_the_plan_for_the_cores_runs(container: Path, cores: int, tasks: int) -> None:
    compiled = load_file(container, replace(SPEC, cores=cores))
    assert compiled.tables.plan == str(cores)
    assert len(compiled.tables.tasks) == tasks
    assert {task.core for task in compiled.tables.tasks} == set(range(cores))
    memory = rknn_cases.memory()
    features = np.array(memory["A"], np.float16).T.reshape(1, 36, 4, 1)
    request = LoadRequest(container, settings={"cores": str(cores)}, inputs={"input": features})
    spec, program = TARGET.load(request, NoProgress())
    machine = TARGET.build(spec, program)
    assert machine.advance(FOREVER, NO_STOPS, None).kind is StopKind.FINISHED
    (output,) = [tensor for tensor in program.graph.tensors if tensor.name == "output"]
    found = machine.tensor(output.id)
    assert found is not None
    expected = np.array(memory["C"], np.float32).T.reshape(1, 16, 4, 1)
    np.testing.assert_array_equal(found, expected)
    flat = machine.tensor(program.graph.outputs[0])
    assert flat is not None
    np.testing.assert_array_equal(flat, expected.reshape(4, 16))


def test_graph_and_places_of_a_container(container: Path) -> None:
    compiled = load_file(container, SPEC)
    graph = compiled.graph
    assert [(node.op_type, node.name) for node in graph.nodes][1] == ("Conv", "conv")
    assert [graph.tensors[t].name for t in (*graph.inputs, *graph.outputs)] == ["input", "flat"]
    weights = graph.constants[2]
    np.testing.assert_array_equal(weights[:, :, 0, 0], np.array(rknn_cases.memory()["B"], np.float16))
    assert compiled.placement == {0: "Core", 1: "Core", 2: "Host", 3: "Core"}
    rows = compiled.memory_map.allocations
    assert {graph.tensors[row.tensor].name for row in rows} >= {"input", "weight", "output"}
    for low, high in pairwise(rows):
        assert low.address + low.size_bytes <= high.address
    assert [call.node for call in compiled.tables.hosts] == [-1, 2]
    assert {task.node for task in compiled.tables.tasks} == {1}


def test_a_container_without_the_plan_runs_a_smaller_one(tmp_path: Path) -> None:
    model = rknn_cases.container(plan_starts=())
    path = tmp_path / "old.rknn"
    write_rknn(path, model)
    compiled = load_file(path, replace(SPEC, cores=3))
    assert compiled.tables.plan == "1"
    assert any("no plan for 3 cores" in text for text in texts(compiled))
    assert len(compiled.tables.tasks) == 11


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"plan_starts": (0, 1, 6)}, ("plan for 3 cores", "tasks 6 to 11")),
        ({"tensors": ()}, ("tensors",)),
    ],
)
def test_containers_that_contradict_themselves(
    changes: dict[str, object], parts: tuple[str, ...], tmp_path: Path
) -> None:
    path = tmp_path / "bad.rknn"
    path.write_bytes(rknn_bytes(rknn_cases.container(**changes)))
    with pytest.raises(FormatError) as error:
        load_file(path, SPEC)
    assert "\n" not in str(error.value)
    for part in parts:
        assert part in str(error.value)


def test_a_container_without_relocations_runs_at_address_0(tmp_path: Path) -> None:
    path = tmp_path / "fixed.rknn"
    path.write_bytes(rknn_bytes(rknn_cases.container(relocations=())))
    machine = machine_of(path)
    assert machine.advance(FOREVER, NO_STOPS, None).kind is StopKind.FINISHED
    machine.read_memory(SPEC.cores, 0, 16)
    assert "nothing is mapped at 0x0" in machine.values().hazards[0].text


def test_sizes_and_blobs_out_of_range(tmp_path: Path) -> None:
    model = rknn_cases.container()
    (graph,) = model.graphs
    for number, change in ((1, {"place": 1 << 30}), (3, {"size": 1 << 30}), (2, {"blob": 77})):
        tensors = list(graph.tensors)
        tensors[number] = replace(tensors[number], **change)
        path = tmp_path / "bad.rknn"
        path.write_bytes(rknn_bytes(replace(model, graphs=(replace(graph, tensors=tuple(tensors)),))))
        with pytest.raises(FormatError, match=f"tensor '{tensors[number].name}'"):
            load_file(path, SPEC)


@pytest.mark.parametrize("shape", [(1, 255, 4000, 4000), (1, -1, 4, 1), (1, 36, 4, 0), ()])
def test_shapes_that_are_damaged_leave_bytes(shape: tuple[int, ...], tmp_path: Path) -> None:
    model = rknn_cases.container()
    (graph,) = model.graphs
    tensors = list(graph.tensors)
    tensors[1] = replace(tensors[1], shape=shape)
    path = tmp_path / "shape.rknn"
    path.write_bytes(rknn_bytes(replace(model, graphs=(replace(graph, tensors=tuple(tensors)),))))
    compiled = load_file(path, SPEC)
    assert compiled.graph.tensors[1].num_elements <= 36 * 4
    (found,) = [buffer for buffer in compiled.tables.buffers if buffer.name == "input"]
    assert found.layout != "feature"
    assert machine_of(path).advance(FOREVER, NO_STOPS, None).kind is StopKind.FINISHED


def test_encrypted_and_cut_containers(container: Path, tmp_path: Path) -> None:
    data = container.read_bytes()
    path = tmp_path / "cut.rknn"
    for damaged, part in ((b"CYPTRKNN" + data[8:], "encrypted"), (data[:500], "payload size")):
        path.write_bytes(damaged)
        with pytest.raises(FormatError, match=part):
            load_file(path, SPEC)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    edits=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=3)
)
def test_damaged_containers_never_break_the_loader(
    edits: list[tuple[float, int]], container: Path, tmp_path: Path
) -> None:
    data = bytearray(container.read_bytes())
    for place, value in edits:
        data[int(place * len(data))] = value
    path = tmp_path / "damaged.rknn"
    path.write_bytes(data)
    message = ""
    try:
        load_file(path, SPEC)
    except NpuvizError as error:
        message = str(error)
    assert "\n" not in message
