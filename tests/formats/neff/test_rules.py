"""Each rule of the table broken alone, and found alone."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from npuviz.base.errors import FormatError
from npuviz.formats.neff.debug import check_debug
from npuviz.formats.neff.debug_records import DebugFile, DebugRecord, Dependency, debug_bytes
from npuviz.formats.neff.file import neff_from_bytes, neff_to_bytes
from npuviz.formats.neff.model import Neff
from npuviz.formats.neff.rules.check import check_neff
from npuviz.formats.neff.rules.table import FINDINGS_PER_RULE, RULES
from tests.formats.neff.cases import small_neff, with_json, with_members

DEF = "sg00/def.json"
PE = "sg00/PE.json"
KELF = "kelf-0.json"
FIRST = "dma.0.desc"

# (rule, machine, member, {path: new value}, a word of the message)
BROKEN: list[tuple[str, str, str, dict[str, Any], str]] = [
    ("kelf.target", "trn2", KELF, {"target": "sunrise"}, "'sunrise' is not known"),
    ("kelf.version", "trn2", KELF, {"version": "9"}, "found '9'"),
    (
        "graph.tensor-size",
        "trn2",
        DEF,
        {"var.x.size": 260},
        "float32[4, 16] of neff.json takes 256 bytes, not 260",
    ),
    ("definition.version", "trn2", DEF, {"version": "7"}, "found '7'"),
    ("definition.field", "trn2", DEF, {"surprise": 1}, "unknown key 'surprise'"),
    ("engine.missing", "trn2", DEF, {"dve": ..., "dve_instr": ...}, "no program for DVE"),
    ("engine.field", "trn2", PE, {"surprise": 1}, "unknown key 'surprise'"),
    ("engine.table", "trn2", "sg00/DVE.json", {"dve_tables.0.opcode_table": "no.bin"}, "no member 'no.bin'"),
    ("engine.debug-file", "trn2", DEF, {"pe_dbg": ["no.dbg"]}, "no member 'no.dbg'"),
    ("queue.type", "trn2", DEF, {"dma_queue.qIn.type": "sideways"}, "'sideways' is none of in, out"),
    ("queue.num-queues", "trn2", DEF, {"dma_queue.qDyn.num_queues": 17}, "expected 1 to 16, found 17"),
    ("queue.num-queues", "trn2", DEF, {"dma_queue.qDyn.num_queues": 0}, "expected 1 to 16, found 0"),
    ("queue.num-queues-inf1", "inf1", DEF, {}, "expected 1 on Inf1, found 2"),
    ("queue.owner", "trn2", DEF, {"dma_queue.qDyn.owner": "gpu"}, "'gpu' is none of pe"),
    ("queue.pinned", "trn2", DEF, {"dma_queue.qIn.pinned": True}, "only Inf1 pins"),
    ("queue.instances", "inf1", DEF, {}, "Inf1 has no queue instances"),
    (
        "queue.instance-unique",
        "trn2",
        DEF,
        {"dma_queue.qDyn.queue_instances": ["ring1"]},
        "also belongs to qDyn",
    ),
    ("queue.fabric-path", "trn2", DEF, {"dma_queue.qIn.fabric_path": "back"}, "found 'back'"),
    ("queue.semaphore-range", "trn2", DEF, {"dma_queue.qRing.semaphore": 256}, "semaphore 256 is not"),
    ("queue.semaphore-count", "trn2", DEF, {"dma_queue.qIn.semaphore_set": [8]}, "1 semaphores for 2 queues"),
    ("queue.semaphore-single", "trn2", DEF, {"dma_queue.qRing.num_queues": 4}, "one semaphore for 4"),
    (
        "queue.scratch",
        "trn2",
        DEF,
        {"dma_queue.qDyn.dynamic_dma.SB_scratch_partition_offset": 213000},
        "bytes 213000 to 229384 are not inside the 229376",
    ),
    ("queue.field", "trn2", DEF, {"dma_queue.qIn.surprise": 1}, "unknown key 'surprise'"),
    ("variable.type", "trn2", DEF, {"var.tmp.type": "magic"}, "'magic' is none of state-buffer"),
    ("variable.id", "trn2", DEF, {"var.tmp.var_id": 1}, "1 is also that of"),
    ("variable.id", "trn2", DEF, {"var.tmp.var_id": -1}, "-1 is negative"),
    ("variable.size-missing", "trn2", DEF, {"var.tmp.size": ...}, "type 'tmp-buf' needs a size"),
    ("variable.size", "trn2", DEF, {"var.tmp.size": -8}, "-8 is negative"),
    ("variable.oversize", "trn2", DEF, {"var.tmp.size": 97 << 30}, "97 GiB do not fit the device's 96 GiB"),
    ("variable.oversize", "trn1", DEF, {"var.tmp.size": 33 << 30}, "33 GiB do not fit the device's 32 GiB"),
    ("variable.alignment", "trn2", DEF, {"var.tmp.alignment": 48}, "power of two, found 48"),
    ("variable.alignment", "trn2", DEF, {"var.tmp.alignment": -64}, "power of two, found -64"),
    ("variable.unaligned", "trn2", DEF, {"var.spill.backing_variable_off": 100}, "100 is no multiple of"),
    ("variable.fabric-path", "trn2", DEF, {"var.tmp.fabric_path": "x"}, "found 'x'"),
    ("variable.file-name-type", "trn2", DEF, {"var.tmp.file_name": "raw.bin"}, "only for type file"),
    ("variable.file-name", "trn2", DEF, {"var.raw.file_name": ...}, "type file needs one"),
    ("variable.file", "trn2", DEF, {"var.raw.file_name": "gone.bin"}, "no member 'gone.bin'"),
    ("variable.npy", "trn2", DEF, {"var.raw.file_name": "fake.npy"}, "'fake.npy': found 61 62 63 64 65"),
    ("variable.file-size", "trn2", DEF, {"var.raw.size": 6}, "5 bytes of data for a variable of 6"),
    ("variable.backing-type", "trn2", DEF, {"var.tmp.backing_variable_off": 0}, "only for type virtual"),
    ("variable.backing-offset", "trn2", DEF, {"var.spill.backing_variable_off": -64}, "-64 is negative"),
    ("variable.pointer-type", "trn2", DEF, {"var.tmp.referenced_var_id": 1}, "only for type pointer"),
    ("variable.pointer", "trn2", DEF, {"var.p.referenced_var_id": 99}, "no variable has var_id 99"),
    ("variable.list-type", "trn2", DEF, {"var.tmp.list": []}, "only for type dge-table"),
    ("variable.list", "trn2", DEF, {"var.t.list": [1, 98]}, "no variable has var_id 98"),
    ("variable.field", "trn2", DEF, {"var.tmp.surprise": 1}, "unknown key 'surprise'"),
    ("dma.queue", "trn2", PE, {"dma.0.queue": ...}, "neither queue nor instance_name"),
    ("dma.queue-declared", "trn2", PE, {"dma.0.queue": "qNone"}, "no queue set is called 'qNone'"),
    ("dma.instance-declared", "trn2", PE, {"dma.1.instance_name": "ring9"}, "instance of no queue set"),
    ("dma.instance-inf1", "inf1", PE, {}, "no queue instances"),
    ("dma.function-inf1", "inf1", PE, {}, "no functions"),
    ("dma.section-inf1", "inf1", PE, {}, "no sections"),
    ("dma.owner", "trn2", PE, {"dma.0.queue": "qDyn"}, "qDyn belongs to pool, not to PE"),
    ("dma.event-range", "trn2", PE, {"dma.0.event": 256}, "256 is not one of 0 to 255"),
    ("dma.semaphore-range", "trn2", PE, {"dma.0.semaphore": -1}, "-1 is not one of 0 to 255"),
    ("dma.semaphore-range", "inf1", PE, {"dma.0.semaphore": 32}, "32 is not one of 0 to 31"),
    ("dma.remote-machine", "trn1", PE, {"dma.0.remote_semaphores": [3]}, "only Trn2 and later"),
    ("dma.remote-lnc", "trn2", PE, {"dma.0.remote_semaphores": [3]}, "lnc_size is 1"),
    ("dma.field", "trn2", PE, {"dma.0.surprise": 1}, "unknown key 'surprise'"),
    ("desc.op", "trn2", PE, {f"{FIRST}.op": "multiply"}, "'multiply' is none of copy"),
    ("desc.op-inf1", "inf1", PE, {}, "Inf1 only copies, found cast"),
    ("desc.dtype", "trn2", PE, {"dma.1.desc.to_dtype": "float31"}, "'float31' is no dtype"),
    ("desc.dtype-inf1", "inf1", PE, {}, "moves bytes only"),
    ("desc.variable", "trn2", PE, {f"{FIRST}.to": "z"}, "no variable is called 'z'"),
    ("desc.rank", "trn2", PE, {f"{FIRST}.to_steps": [1]}, "found 1 and 2"),
    ("desc.rank", "trn2", PE, {f"{FIRST}.to_steps": [], f"{FIRST}.to_sizes": []}, "found 0 and 0"),
    (
        "desc.rank",
        "trn2",
        PE,
        {f"{FIRST}.to_steps": [1] * 5, f"{FIRST}.to_sizes": [1] * 5},
        "found 5 and 5",
    ),
    ("desc.sizes", "trn2", PE, {f"{FIRST}.to_sizes": [64, 0]}, "0 is less than 1"),
    (
        "desc.bounds",
        "trn2",
        PE,
        {f"{FIRST}.to_off": 129},
        "bytes 129 to 256 are not inside variable y of 256",
    ),
    (
        "desc.bounds",
        "trn2",
        PE,
        {f"{FIRST}.from_steps": [1, 193]},
        "bytes 0 to 256 are not inside variable x",
    ),
    ("desc.bounds", "trn2", PE, {f"{FIRST}.from_steps": [1, -1]}, "bytes -1 to 63"),
    (
        "desc.from-arr",
        "trn2",
        PE,
        {"dma.3.desc.op": "cast", "dma.3.desc.constant": ...},
        "cast takes one source",
    ),
    ("desc.from-arr-inf1", "inf1", PE, {}, "one source"),
    ("desc.sources", "trn2", PE, {"dma.2.desc.from_arr": []}, "expected 1 to 16, found 0"),
    ("desc.scale", "trn2", PE, {f"{FIRST}.scale": 2.0}, "only for fma, here op is copy"),
    ("desc.scale-dtype", "trn2", PE, {"dma.2.desc.scale_dtype": "int8"}, "found 'int8' for fma"),
    ("desc.constant", "trn2", PE, {f"{FIRST}.constant": 1}, "only for min and max"),
    ("desc.constant-dtype", "trn2", PE, {"dma.3.desc.constant_dtype": "int8"}, "found 'int8' for max"),
    ("desc.constant-missing", "trn2", PE, {"dma.3.desc.constant": ...}, "needs one"),
    ("desc.constant-value", "trn2", PE, {"dma.3.desc.constant": 1 << 31}, "2147483648 is no int32"),
    ("desc.constant-value", "trn2", PE, {"dma.3.desc.constant": 0.5}, "0.5 is no int32"),
    ("desc.constant-ignored", "trn2", PE, {"dma.3.desc.constant_dtype": ...}, "ignored without"),
    ("desc.transpose-op", "trn2", PE, {f"{FIRST}.transpose_element_size": 2}, "are not for copy"),
    ("desc.transpose-shape", "trn2", PE, {"dma.4.desc.transpose_shape": [4, 8]}, "found [4, 8]"),
    ("desc.transpose-shape", "trn2", PE, {"dma.4.desc.transpose_shape": [1, 1, -4, -8]}, "4 positive"),
    ("desc.transpose-size", "trn2", PE, {"dma.4.desc.transpose_element_size": 4}, "are not the 64 bytes"),
    ("desc.transpose-missing", "trn2", PE, {"dma.4.desc.transpose_shape": ...}, "is missing"),
    ("desc.tiling", "trn2", PE, {"dma.1.desc.num_tiling_dimensions": 5}, "expected 1 to 4, found 5"),
    ("desc.element", "trn2", PE, {"dma.1.desc.to_sizes": [63]}, "63 bytes are no whole number of float32"),
    ("desc.count", "trn2", PE, {"dma.1.desc.to_sizes": [60]}, "16 elements of x for 15 of y"),
    ("desc.count", "trn2", PE, {f"{FIRST}.to_sizes": [32, 2]}, "128 bytes of x for 64 of y"),
    ("desc.field", "trn2", PE, {f"{FIRST}.surprise": 1}, "unknown key 'surprise'"),
    ("desc.field", "trn2", PE, {"dma.2.desc.from_arr.0.surprise": 1}, "unknown key 'surprise'"),
]
# Rules that other mistakes necessarily break too.
TOGETHER = {
    "kelf.target": set(),
    "engine.missing": set(),
    "variable.size": {"graph.tensor-size"},
    "desc.from-arr": {"desc.constant", "desc.constant-dtype"},
}
HEADERS: list[tuple[str, str, dict[str, Any], str]] = [
    ("header.hash", "trn2", {"hash": b"\1" * 32}, "matches no known hash"),
    ("header.package-version", "trn2", {"pkg_version": 3}, "found 3"),
    ("header.version", "trn2", {"version_major": 9}, "found 9.0"),
    ("header.features", "trn2", {"feature_bits": 0x100 | 1 << 50}, "unknown bits: 8, 50"),
    ("header.lnc-size", "trn2", {"lnc_size": 2}, "2, but there are 1 subgraphs"),
]


def broken(machine: str, member: str, changes: dict[str, Any]) -> Neff:
    neff = small_neff(machine)
    neff = with_members(neff, {**neff.members, "sg00/fake.npy": b"abcde" * 4})
    members = dict(neff.members)
    for path, value in changes.items():
        members = with_json(replace(neff, members=members), member, path, value)
    return with_members(neff, members)


def test_a_sound_neff_breaks_no_rule() -> None:
    for machine in ("trn1", "inf2", "trn2", "cayman", "trn3"):
        assert check_neff(small_neff(machine)) == ()
        assert check_debug(small_neff(machine)) == ()


@pytest.mark.parametrize(("rule", "machine", "member", "changes", "word"), BROKEN)
def test_each_rule_is_found(rule: str, machine: str, member: str, changes: dict[str, Any], word: str) -> None:
    found = check_neff(broken(machine, member, changes))
    mine = [each for each in found if each.rule == rule]
    assert mine, found
    assert any(word in each.text for each in mine), mine
    assert all(each.severity == RULES[rule].severity for each in mine)
    assert all(each.where.startswith(member) or rule.startswith("graph.") for each in mine)
    if machine == "trn2":
        assert {each.rule for each in found} - {rule} <= TOGETHER.get(rule, set())


@pytest.mark.parametrize(("rule", "machine", "changes", "word"), HEADERS)
def test_each_header_rule_is_found(rule: str, machine: str, changes: dict[str, Any], word: str) -> None:
    neff = small_neff(machine)
    (found,) = check_neff(replace(neff, header=replace(neff.header, **changes)))
    assert (found.rule, found.severity, found.is_fatal) == (rule, "warning", False)
    assert word in found.text


def test_lnc_on_a_machine_without_it_is_found() -> None:
    found = check_neff(small_neff("trn1", cores=2, lnc_size=2))
    assert [each.rule for each in found] == ["header.lnc-machine"]


def test_remote_semaphores_of_an_lnc_pair_are_right() -> None:
    neff = small_neff("trn2", cores=2, lnc_size=2)
    neff = with_members(neff, with_json(neff, PE, "dma.0.remote_semaphores", [3, 255]))
    assert check_neff(neff) == ()
    neff = with_members(neff, with_json(neff, PE, "dma.0.remote_semaphores", [256]))
    assert [each.rule for each in check_neff(neff)] == ["dma.semaphore-range"]


def test_a_wrong_program_size_is_found() -> None:
    neff = small_neff()
    neff = with_members(neff, {**neff.members, "sg00/SP.bin": bytes(65)})
    (found,) = check_neff(neff)
    assert (found.rule, found.where) == ("engine.program-size", "sg00/SP.bin")
    assert "65 bytes" in found.text


def test_unused_bytes_are_found() -> None:
    neff = neff_from_bytes(neff_to_bytes(small_neff()) + b"after", "m")
    (found,) = neff.warnings
    assert (found.rule, found.text) == ("header.unused", "5 bytes after the content belong to nothing")


def test_unequal_trigger_amounts_are_found_but_not_fatal() -> None:
    neff = small_neff()
    members = with_json(neff, PE, "dma.1.id", 1)
    assert check_neff(with_members(neff, members)) == ()
    neff = with_members(neff, members)
    neff = with_members(neff, with_json(neff, PE, "dma.2.id", 1))
    # The second set's entry belongs to the function "main": only entries of one function are compared.
    assert check_neff(neff) == ()
    neff = with_members(neff, with_json(neff, PE, "dma.1.function_start", ...))
    (found,) = check_neff(neff)
    assert (found.rule, found.severity, found.is_fatal) == ("dma.trigger-amounts", "error", False)
    assert "2 on qIn, 1 on ring1" in found.text


def test_the_members_of_npuviz_itself_are_never_a_matter() -> None:
    neff = small_neff()
    neff = with_members(neff, with_json(neff, DEF, "npuviz_note", 1))
    neff = with_members(neff, {**neff.members, "npuviz/anything": b"x"})
    assert check_neff(neff) == ()


def test_fatal_errors_refuse_the_file_and_others_do_not() -> None:
    fatal = broken("trn2", DEF, {"dma_queue.qIn.type": "sideways"})
    with pytest.raises(FormatError, match=r"dma_queue\.qIn\.type: 'sideways' is none of"):
        neff_from_bytes(neff_to_bytes(fatal), "m.neff")
    mild = broken("trn2", DEF, {"var.tmp.size": ...})
    assert [each.severity for each in neff_from_bytes(neff_to_bytes(mild), "m").warnings] == ["error"]


def test_a_rule_broken_very_often_is_told_in_few_lines() -> None:
    neff = small_neff()
    desc = {"to": "y", "to_off": 0, "to_steps": [1], "to_sizes": [1]}
    desc |= {"from": "x", "from_off": 0, "from_steps": [1], "from_sizes": [1]}
    entry = {"id": 1, "queue": "no", "desc": desc}
    neff = with_members(neff, with_json(neff, PE, "dma", [entry] * 200))
    found = check_neff(neff)
    assert len(found) == FINDINGS_PER_RULE + 1
    assert found[-1].text == "150 more of this kind"


def test_debug_rules() -> None:
    neff = small_neff()
    cases = {
        "debug.records": {"sg00/pe.dbg": b"\x1a\xff"},
        "debug.slots": {"sg00/pe_asm.dbg": debug_bytes(DebugFile(records=(DebugRecord(),)))},
        "debug.edges": {"sg00/pe_asm.dbg": debug_bytes(DebugFile(records=(DebugRecord(parents=(77,)),) * 6))},
    }
    for rule, change in cases.items():
        found = check_debug(with_members(neff, {**neff.members, **change}))
        assert {each.rule for each in found} == {rule}
        assert {each.severity for each in found} == {"warning"}
    unknown = DebugFile(records=(DebugRecord(7, "a", depends_on=(Dependency(55),)),))
    found = check_debug(with_members(neff, {**neff.members, "sg00/pe.dbg": debug_bytes(unknown)}))
    assert any("'a' depends on an unknown record 55" in each.text for each in found)
    found = check_debug(with_members(neff, {**neff.members, "debug_info/x.dbg": b"\x07"}))
    assert [(each.rule, each.where) for each in found] == [("debug.records", "debug_info/x.dbg")]


def test_every_rule_of_the_table_has_its_case() -> None:
    covered = {each[0] for each in BROKEN} | {each[0] for each in HEADERS}
    covered |= {"header.lnc-machine", "header.unused", "engine.program-size", "dma.trigger-amounts"}
    covered |= {"debug.records", "debug.slots", "debug.edges"}
    assert covered == set(RULES)


def test_the_page_lists_every_rule_as_it_is() -> None:
    page = (Path(__file__).parents[3] / "docs" / "neff.md").read_text()
    rows = re.findall(r"^\| `([a-z0-9.-]+)` \| (error|warning)(.*?) \| (.*?) \| (.*?) \|", page, re.MULTILINE)
    listed = {
        name: (severity, not exempt, machines, demand) for name, severity, exempt, machines, demand in rows
    }
    assert listed == {
        rule.name: (rule.severity, rule.is_fatal or rule.severity == "warning", rule.machines, rule.demand)
        for rule in RULES.values()
    }
