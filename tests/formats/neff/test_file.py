import errno
import time
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from npuviz.base.errors import FormatError
from npuviz.formats.neff import tar as neff_tar
from npuviz.formats.neff.constants import constant_data
from npuviz.formats.neff.file import (
    make_neff,
    neff_from_bytes,
    neff_to_bytes,
    open_container,
    read_neff,
    write_neff,
)
from npuviz.formats.neff.graph import GraphTensor, graph_tensors
from npuviz.formats.neff.header import header_bytes, parse_header
from npuviz.formats.neff.model import (
    Access,
    Descriptor,
    DmaEntry,
    EngineFile,
    NeffHeader,
    QueueSet,
    Subgraph,
    Variable,
)
from tests.formats.neff.cases import real_file, small_bytes, small_neff, subgraph, with_json, with_members


def test_every_header_field_has_its_place() -> None:
    header = NeffHeader(
        pkg_version=1,
        data_size=7,
        version_major=3,
        version_minor=4,
        build_version=b"build".ljust(128, b"\0"),
        num_tpb=5,
        hash=bytes(range(32)),
        uuid=bytes(range(16)),
        name=b"model.neff".ljust(256, b"\0"),
        requested_tpb_count=6,
        tpb_per_node=bytes(range(64)),
        feature_bits=0x8000000000000201,
        lnc_size=2,
        pad=b"p" * 468,
    )
    raw = header_bytes(header)
    assert len(raw) == 1024
    # Offsets of the reference, 4.1.
    assert raw[0] == 1
    assert raw[8:10] == b"\x00\x04"
    assert raw[16] == 7
    assert (raw[24], raw[32]) == (3, 4)
    assert raw[40:45] == b"build"
    assert raw[168] == 5
    assert raw[172:204] == bytes(range(32))
    assert raw[204:220] == bytes(range(16))
    assert raw[220:230] == b"model.neff"
    assert raw[476] == 6
    assert raw[480:544] == bytes(range(64))
    assert raw[544:552] == bytes.fromhex("0102000000000080")
    assert raw[552] == 2
    assert raw[556:] == b"p" * 468
    assert parse_header(raw + bytes(7), "f") == header
    assert header.name.rstrip(b"\0") == b"model.neff"


@pytest.mark.parametrize(
    ("offset", "value", "found"),
    [
        (8, 1023, "header_size: expected 1024, found 1023"),
        (8, 1 << 63, "header_size: expected 1024"),
        (16, 1 << 40, "data_size: expected at most"),
    ],
)
def test_lies_about_sizes_are_refused(offset: int, value: int, found: str) -> None:
    data = bytearray(small_bytes())
    data[offset : offset + 8] = value.to_bytes(8, "little")
    with pytest.raises(FormatError, match=found):
        neff_from_bytes(bytes(data), "m.neff")


def test_a_data_size_that_cuts_the_stream_is_refused() -> None:
    data = bytearray(small_bytes())
    data[16:24] = (900).to_bytes(8, "little")
    with pytest.raises(FormatError, match="expected a complete gzip stream, found its end missing"):
        neff_from_bytes(bytes(data), "m.neff")


@pytest.mark.parametrize("compression", [0, 1, 9])
def test_round_trip_keeps_every_member_and_object(compression: int) -> None:
    made = small_neff(cores=2, lnc_size=2)
    again = neff_from_bytes(neff_to_bytes(made, compression), "small.neff")
    assert list(again.members) == list(made.members)
    assert again.members == made.members
    assert again.warnings == ()
    assert again.is_compressed == bool(compression)
    assert [each.name for each in again.subgraphs] == ["sg00", "sg01"]
    assert again.generation == 3
    for before, after in zip(made.subgraphs, again.subgraphs, strict=True):
        assert after.queue_sets == before.queue_sets
        assert after.variables == before.variables
        assert after.tensor_map == before.tensor_map
        for name, engine in before.engines.items():
            assert after.engines[name].descriptors == engine.descriptors
            assert after.engines[name].program == engine.program
            assert after.engines[name].extra == engine.extra
    # A second write of what was read gives the same file.
    assert neff_to_bytes(again, compression) == neff_to_bytes(made, compression)


def test_building_copies_no_payload() -> None:
    program = memoryview(bytes(1 << 20))
    made = make_neff(
        [Subgraph("sg00", engines={"PE": EngineFile("PE", program)})],
        {"npuviz/Host.bin": program},
        name="n",
        target="trn2",
    )
    assert made.members["sg00/PE.bin"] is program
    assert made.members["npuviz/Host.bin"] is program


def test_equal_content_gives_equal_files_with_hash_and_uuid() -> None:
    first, second = (neff_to_bytes(small_neff()) for _ in range(2))
    assert first == second
    header = parse_header(first, "f")
    assert any(header.hash[:16])
    assert not any(header.hash[16:])
    assert header.uuid[6] >> 4 == 8
    changed = small_neff()
    other = neff_to_bytes(replace(changed, members={**changed.members, "npuviz/more": b"1"}))
    assert parse_header(other, "f").uuid != header.uuid
    assert parse_header(other, "f").hash != header.hash


def test_unknown_keys_survive_reading_and_building() -> None:
    made = small_neff()
    for member, path, value in (
        ("sg00/def.json", "future", {"a": [1]}),
        ("sg00/def.json", "var.x.future", 1),
        ("sg00/def.json", "dma_queue.qIn.future", "two"),
        ("sg00/PE.json", "future", [3]),
        ("sg00/PE.json", "dma.0.future", None),
        ("sg00/PE.json", "dma.0.desc.future", 4.5),
        ("sg00/PE.json", "dma.2.desc.from_arr.1.future", True),
    ):
        made = with_members(made, with_json(made, member, path, value))
    built = make_neff(made.subgraphs, name="n", target="trn2")
    definition = orjson.loads(built.members["sg00/def.json"])
    engine = orjson.loads(built.members["sg00/PE.json"])
    assert definition["future"] == {"a": [1]}
    assert definition["var"]["x"]["future"] == 1
    assert definition["dma_queue"]["qIn"]["future"] == "two"
    assert engine["future"] == [3]
    assert engine["dma"][0]["future"] is None
    assert engine["dma"][0]["desc"]["future"] == 4.5
    assert engine["dma"][2]["desc"]["from_arr"][1]["future"] is True


def test_every_descriptor_field_is_read() -> None:
    entries = neff_from_bytes(small_bytes(), "m").subgraphs[0].engines["PE"].descriptors
    assert entries == subgraph().engines["PE"].descriptors
    copy, cast, fma, extreme, transpose = entries
    assert (copy.id, copy.queue, copy.semaphore, copy.event) == (1, "qIn", 9, 3)
    assert copy.desc.to == "y"
    assert copy.desc.to_access.span == (64, 191)
    assert copy.desc.to_access.byte_count == 128
    assert (cast.instance_name, cast.function_start, cast.section_start_desc) == ("ring1", "main", True)
    assert (cast.desc.op, cast.desc.sources[0].dtype) == ("cast", "bfloat16")
    assert [source.scale for source in fma.desc.sources] == [0.0, 1.0, 2.0]
    assert (extreme.desc.constant, extreme.desc.constant_dtype) == (-7, "int32")
    assert transpose.desc.transpose_shape == (1, 1, 4, 8)


def test_negative_steps_reach_down() -> None:
    access = Access("x", 100, (1, -8), (4, 3))
    assert access.span == (84, 103)


def test_constants_are_the_array_of_npy_or_all_bytes() -> None:
    loaded = neff_from_bytes(small_bytes(), "m").subgraphs[0]
    weights = constant_data(loaded, loaded.variables["w"])
    assert weights.dtype == np.uint8
    assert weights.view(np.float32).tolist() == [0, 1, 2, 3, 4, 5]
    assert not weights.flags.writeable
    assert bytes(constant_data(loaded, loaded.variables["raw"])) == b"abcde"


def test_a_constant_without_a_file_is_refused() -> None:
    loaded = neff_from_bytes(small_bytes(), "m").subgraphs[0]
    with pytest.raises(FormatError, match="variable x, file_name: expected a file of the subgraph"):
        constant_data(loaded, loaded.variables["x"])


def test_inputs_and_outputs_are_those_of_the_graph() -> None:
    loaded = neff_from_bytes(small_bytes(), "m")
    assert graph_tensors(loaded.graph) == (
        (GraphTensor("x", "float32", (4, 16)),),
        (GraphTensor("y", "float32", (4, 16)),),
    )


@pytest.mark.parametrize("graph", [{}, {"attrs": 1}, {"attrs": {"shape": [1, [["a"]]], "dltype": [1, [2]]}}])
def test_a_graph_that_says_little_names_nothing(graph: dict[str, Any]) -> None:
    assert graph_tensors(graph) == ((), ())


def test_warnings_are_kept_with_the_file() -> None:
    made = small_neff()
    made = replace(made, header=replace(made.header, feature_bits=1 << 40))
    found = neff_from_bytes(neff_to_bytes(made), "m").warnings
    assert [each.rule for each in found] == ["header.features"]
    assert "40" in found[0].text


def test_a_fatal_error_says_how_many_more_there_are() -> None:
    made = small_neff()
    members = with_json(made, "sg00/def.json", "var.x.type", "magic")
    made = with_members(made, members)
    made = with_members(made, with_json(made, "sg00/def.json", "var.y.type", "magic"))
    with pytest.raises(
        FormatError, match=r"var\.x\.type: 'magic' is none of .*; and 1 more, see npuviz neff"
    ):
        neff_from_bytes(neff_to_bytes(made), "m.neff")


def test_several_kelf_files_of_an_old_pipeline_are_all_read() -> None:
    made = small_neff("inf1")
    second = {**orjson.loads(made.members["kelf-0.json"])}
    second["graphs"] = [{"definition": "other/def.json", "name": "other"}]
    graph = orjson.loads(made.members["neff.json"])
    graph["nodes"].append({"op": "tvm_op", "attrs": {"kelf": "kelf-1.json"}})
    moved = {
        name.replace("sg00/", "other/"): content
        for name, content in made.members.items()
        if name.startswith("sg00/")
    }
    members = {
        **made.members,
        **moved,
        "kelf-1.json": orjson.dumps(second),
        "neff.json": orjson.dumps(graph),
    }
    assert [each.name for each in with_members(made, members).subgraphs] == ["sg00", "other"]


def test_writing_is_all_or_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "m.neff"
    write_neff(small_neff(), path)
    before = path.read_bytes()
    assert read_neff(path).members == small_neff().members

    def full(*_: object) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(neff_tar, "gzip_chunks", full)
    with pytest.raises(OSError, match="No space left"):
        write_neff(small_neff(), path)
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["m.neff"]


def test_a_written_file_has_usual_permissions(tmp_path: Path) -> None:
    path = tmp_path / "m.neff"
    write_neff(small_neff(), path)
    plain = tmp_path / "plain"
    plain.write_bytes(b"")
    assert path.stat().st_mode == plain.stat().st_mode


def test_fifty_thousand_descriptors_are_read_and_written_in_time() -> None:
    entries = tuple(
        DmaEntry(
            index,
            Descriptor(
                Access("b", index * 4, (1, 128), (64, 2)), (Access("a", index * 4, (1, 128), (64, 2)),)
            ),
            queue="q",
            semaphore=3,
        )
        for index in range(50_000)
    )
    variables = {
        "a": Variable("a", "input", 1, size=1 << 20),
        "b": Variable("b", "output", 2, size=1 << 20),
    }
    engines = {"PE": EngineFile("PE", bytes(10 << 20), entries)}
    start = time.process_time()
    made = make_neff([Subgraph("sg00", {"q": QueueSet("q")}, variables, engines)], name="big", target="trn2")
    data = neff_to_bytes(made)
    written = time.process_time()
    again = neff_from_bytes(data, "big")
    read = time.process_time()
    assert again.subgraphs[0].engines["PE"].descriptors == entries
    # Measured 0.25 s and 1.2 s; ten times that is left, since what is quadratic would take minutes.
    assert written - start < 3
    assert read - written < 12


# --- the real file -------------------------------------------------------------------------------


def test_the_real_neff_is_understood() -> None:
    found = read_neff(real_file())
    header = found.header
    assert (header.pkg_version, header.version_major, header.version_minor) == (2, 2, 0)
    assert header.data_size == 61440
    assert (header.num_tpb, header.requested_tpb_count, header.lnc_size) == (1, 1, 2)
    assert (header.name.rstrip(b"\0"), header.feature_bits) == (b"file.neff", 0x209C00)
    assert [each.rule for each in found.warnings] == ["header.hash"]
    assert len(found.members) == 72
    assert (found.target, found.generation) == ("cayman", 3)
    for each in found.subgraphs:
        slots = {name: engine.slot_count for name, engine in each.engines.items()}
        assert slots == {"PE": 12, "Activation": 5, "Pool": 7, "DVE": 2, "SP": 3}
        assert not any(engine.descriptors for engine in each.engines.values())
        assert each.queue_sets["qSPDynamicHW"].semaphore_set == tuple(range(8, 24))
        assert each.queue_sets["qPoolDynamic"].owner == "pool"
        assert each.variables["DGETable0"].table == (1, 2, 3)
        assert each.variables["SB"].size is None
        constant = each.variables["identity_82_sg0000"]
        assert (constant.size, constant.alignment) == (32768, 32768)
        identity = constant_data(each, constant).view(np.float16).reshape(128, 128)
        assert np.array_equal(identity, np.eye(128, dtype=np.float16))
        assert each.engines["Activation"].extra["activation_function_sets"] == ["exp_and_others"]
        assert set(each.engines["DVE"].dve_tables[0]) == {
            "control_fast_table",
            "control_slow_table",
            "datapath_table",
            "opcode_table",
        }
        assert each.definition["runtime_statebuffer_reservation"][0]["offset"] == 229368
    first, second = found.subgraphs
    assert [
        name for name in first.engines if first.engines[name].program != second.engines[name].program
    ] == ["Pool"]
    inputs, outputs = graph_tensors(found.graph)
    assert [each.name for each in (*inputs, *outputs)] == ["x", "y", "output0"]


def test_the_real_neff_is_given_back_byte_for_byte() -> None:
    data = real_file().read_bytes()
    found = read_neff(real_file())
    assert not any(entry.raw for entry in found.layout)
    plain = neff_to_bytes(found, 0)
    compressed = neff_to_bytes(found)
    # The header differs in nothing but data_size; the tar in nothing. The gzip stream may differ.
    assert plain[:16] + plain[24:1024] == data[:16] + data[24:1024]
    assert compressed[:16] + compressed[24:1024] == data[:16] + data[24:1024]
    again = open_container(compressed, "again")
    assert neff_to_bytes(again, 0)[1024:] == plain[1024:]
    assert zlib.decompress(data[1024:], 31) == plain[1024:]
    assert list(again.members) == list(found.members)


def test_the_real_neff_built_again_from_its_parts_is_the_same() -> None:
    found = read_neff(real_file())
    built = make_neff(
        found.subgraphs, name="file.neff", target=found.target, lnc_size=2, graph=found.graph, info={}
    )
    again = neff_from_bytes(neff_to_bytes(built), "built")
    assert again.subgraphs == found.subgraphs
    assert again.warnings == ()
