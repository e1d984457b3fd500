from collections import Counter

import pytest

from npuviz.base.errors import FormatError
from npuviz.formats.neff.debug import ancestors, check_debug, debug_records, engine_instructions, module_debug
from npuviz.formats.neff.debug_records import DebugFile, DebugRecord, Dependency, debug_bytes, parse_debug
from npuviz.formats.neff.file import neff_from_bytes, read_neff
from npuviz.formats.neff.model import ENGINES
from npuviz.formats.neff.protobuf import packed, wire_fields
from tests.formats.neff.cases import real_file, small_bytes, with_json, with_members


def test_records_are_read_as_they_were_written() -> None:
    whole = DebugFile(
        "about",
        "parent.dbg",
        6,
        ("/a/b.py", "c.py"),
        (
            DebugRecord(),
            DebugRecord(
                1 << 40,
                "name",
                (1, 300),
                (Dependency(5, "flow"), Dependency(600, "17")),
                (Dependency(0, "accumulate"),),
                3,
                {"key": "", "other": "1"},
            ),
            DebugRecord(2, "operand edges", depends_on=(Dependency(1),), has_kinds=False),
        ),
        b"\x01frames",
    )
    assert parse_debug(debug_bytes(whole), "f") == whole
    assert parse_debug(b"", "f") == DebugFile()


def test_sources_come_from_either_kind_of_attribute() -> None:
    file = DebugFile(sources=("/x/model.py",))
    assert file.source_of(DebugRecord(attributes={"kernel_file": "0", "kernel_line": "58"})) == (
        "/x/model.py",
        58,
    )
    hlo = DebugRecord(attributes={"op_type": "dot", "source_file": "/y.py", "source_line": "3"})
    assert file.source_of(hlo) == ("/y.py", 3)
    assert file.source_of(DebugRecord(attributes={"kernel_file": "1", "kernel_line": "58"})) is None
    assert file.source_of(DebugRecord(attributes={"kernel_file": "-1"})) is None
    assert file.source_of(DebugRecord(attributes={"source_file": "", "source_line": "0"})) is None
    assert file.source_of(DebugRecord()) is None


def test_slots_are_grouped_to_instructions() -> None:
    subgraph = neff_from_bytes(small_bytes(), "m").subgraphs[0]
    found = engine_instructions(subgraph, "PE")
    assert [(each.first_slot, each.slot_count, each.record and each.record.name) for each in found] == [
        (0, 2, None),
        (2, 1, "load"),
        (3, 2, "matmul"),
        (5, 1, "other"),
    ]
    assert found[1].source == ("/build/host/model.py", 12)
    assert found[2].record is not None
    assert found[2].record.depends_on == (Dependency(7, "flow"), Dependency(8, "accumulate"))
    assert found[2].record.synchronised == (Dependency(7, "anti"),)
    assert engine_instructions(subgraph, "SP") == ()
    assert debug_records(subgraph, "DMA") == DebugFile()
    with pytest.raises(ValueError, match="neither backend nor assembly"):
        debug_records(subgraph, "PE", "middle")


def test_several_files_of_an_engine_are_one() -> None:
    neff = neff_from_bytes(small_bytes(), "m")
    more = debug_bytes(DebugFile(records=(DebugRecord(900, "later"),)))
    neff = with_members(neff, {**neff.members, "sg00/more.dbg": more})
    neff = with_members(neff, with_json(neff, "sg00/def.json", "pe_dbg", ["pe.dbg", "more.dbg"]))
    found = debug_records(neff.subgraphs[0], "PE")
    assert [each.name for each in found.records] == ["load", "matmul", "other", "later"]
    assert found.sources == ("/build/host/model.py",)


def test_a_record_leads_to_the_operation_it_comes_from() -> None:
    neff = neff_from_bytes(small_bytes(), "m")
    level = debug_records(neff.subgraphs[0], "PE")
    found = [record.name for _, record in ancestors(neff, level, level.records[1])]
    assert found == ["matmul of the model"]
    assert module_debug(neff, "") == DebugFile()
    assert module_debug(neff, "no.dbg") == DebugFile()


def test_levels_that_name_each_other_end() -> None:
    neff = neff_from_bytes(small_bytes(), "m")
    loop = DebugFile("", "debug_info_penguin.dbg", 0, (), (DebugRecord(3, "again", (3,)),))
    name = "debug_info/debug_info_penguin.dbg_sg000000"
    neff = with_members(neff, {**neff.members, name: debug_bytes(loop)})
    level = debug_records(neff.subgraphs[0], "PE")
    assert [record.name for _, record in ancestors(neff, level, level.records[1])] == ["again"]


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"\x1a", "protobuf number"),
        (b"\x1a\x05ab", "expected 5 bytes of field 3, found 2"),
        (b"\x00\x01", "field number 0"),
        (b"\x0b", "wire type 0, 1, 2 or 5"),
        (b"\x08" + b"\xff" * 11, "endless"),
        (b"\x08" + b"\xff" * 9 + b"\x7f", "endless"),
        (b"\x18\x01", "expected a record of a debug file, found the number 1"),
        (b"\x22\x00", "expected a level of a debug file, found a text"),
        (b"\x1a\x03\x1a\x01\x80", "protobuf number"),
        (b"\x1a\x02\x38\x01", "an attribute"),
    ],
)
def test_damaged_records_are_refused(data: bytes, found: str) -> None:
    with pytest.raises(FormatError, match=found):
        parse_debug(data, "f.dbg")


def test_unknown_fields_of_every_wire_type_are_passed_over() -> None:
    data = b"\x58\x01" + b"\x61" + bytes(8) + b"\x6d" + bytes(4) + b"\x72\x01x" + b"\x20\x03"
    assert parse_debug(data, "f").level == 3
    assert [number for number, _ in wire_fields(data, "f")] == [11, 12, 13, 14, 4]
    assert packed(b"\x01\xac\x02", "f") == (1, 300)
    assert packed(7, "f") == (7,)


def test_texts_hold_no_control_characters() -> None:
    data = debug_bytes(DebugFile(about="a\nb\x1b[0m"))
    assert parse_debug(data, "f").about == "a\\nb\\x1b[0m"
    assert parse_debug(b"\x0a\x01\xff", "f").about == "\\xff"


# --- the real file -------------------------------------------------------------------------------


def test_the_real_records_are_given_back_byte_for_byte() -> None:
    neff = read_neff(real_file())
    names = [name for name in neff.members if ".dbg" in name]
    assert len(names) == 4 + 2 * 11
    for name in names:
        content = neff.members[name]
        assert debug_bytes(parse_debug(content, name)) == content, name
    assert check_debug(neff) == ()


def test_the_real_programs_have_names_edges_and_lines() -> None:
    neff = read_neff(real_file())
    for subgraph in neff.subgraphs:
        named = {engine: engine_instructions(subgraph, engine) for engine in ENGINES}
        for engine, instructions in named.items():
            assert sum(each.slot_count for each in instructions) == subgraph.engines[engine].slot_count
            assert (instructions[0].first_slot, instructions[0].slot_count) == (0, 2)
            assert instructions[0].record is None
        records = [each.record for group in named.values() for each in group if each.record]
        assert len(records) == 15
        kinds = Counter(each.kind for record in records for each in record.depends_on)
        assert kinds == {"flow": 13, "accumulate": 1}
        names = [each.record.name for each in named["PE"] if each.record]
        assert names == ["I-87-0-wait-0", "I-87-0", "I-87-1", "I-72-0-wait-0", "I-72-0", "I-72-1"]
        last = named["PE"][-1]
        assert last.source is not None
        assert (last.source[0].rpartition("/")[2], last.source[1]) == ("test_spike_async.py", 58)
    level = debug_records(neff.subgraphs[0], "PE")
    found = [record.name for _, record in ancestors(neff, level, level.records[-1])]
    assert found == ["float32<128 x 64> $72", "%op0 = dot(%x, %y)", "hlo__dot_op0"]
