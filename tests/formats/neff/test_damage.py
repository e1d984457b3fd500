"""Damaged NEFF files: whatever was done to them, the answer is a NEFF or one line of FormatError."""

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npuviz.base.errors import FormatError
from npuviz.formats.neff.constants import constant_data
from npuviz.formats.neff.debug import ancestors, check_debug, debug_records, engine_instructions
from npuviz.formats.neff.file import make_neff, neff_from_bytes, neff_from_members, neff_to_bytes, parse_neff
from npuviz.formats.neff.graph import graph_tensors
from npuviz.formats.neff.model import EngineFile, Neff, Subgraph
from npuviz.formats.neff.rules.check import check_neff
from tests.formats.neff.cases import file_of_tar, real_file, small_bytes, small_neff, with_json, with_members
from tests.sweeps import examples

LIMIT = 8 << 20
LONGEST = 1200


def one_line(error: FormatError) -> None:
    text = str(error)
    assert "\n" not in text
    assert text.isprintable(), text
    assert len(text) < LONGEST


def use_everything(neff: Neff) -> None:
    """What a reader of the NEFF would call: none of it may fail otherwise than by FormatError."""
    check_debug(neff)
    graph_tensors(neff.graph)
    for subgraph in neff.subgraphs:
        with contextlib.suppress(FormatError):
            engine_instructions(subgraph, "PE")
        for variable in subgraph.variables.values():
            if variable.type == "file":
                with contextlib.suppress(FormatError):
                    constant_data(subgraph, variable)
        with contextlib.suppress(FormatError):
            level = debug_records(subgraph, "PE")
            for record in level.records:
                list(ancestors(neff, level, record))
    make_neff(neff.subgraphs, name="again", target=neff.target, graph=neff.graph)


def read_damaged(data: bytes) -> bool:
    """Whether the bytes are a usable NEFF; checks how they are refused if not."""
    try:
        neff = neff_from_bytes(data, "m.neff", LIMIT)
    except FormatError as error:
        one_line(error)
        return False
    use_everything(neff)
    return True


def tiny_neff() -> Neff:
    return make_neff([Subgraph("sg00", engines={"PE": EngineFile("PE", bytes(64))})], name="t", target="inf1")


@pytest.mark.parametrize("compression", [0, 1])
def test_a_file_cut_at_any_byte_is_refused(compression: int) -> None:
    data = neff_to_bytes(tiny_neff(), compression)
    assert read_damaged(data)
    for length in range(len(data)):
        with pytest.raises(FormatError) as caught:
            neff_from_bytes(data[:length], "m.neff", LIMIT)
        one_line(caught.value)


@pytest.mark.parametrize("compression", [0, 1])
def test_a_payload_cut_at_any_byte_with_an_honest_size_is_refused(compression: int) -> None:
    data = neff_to_bytes(tiny_neff(), compression)
    # The last blocks and the padding are zeros that a reader can do without.
    whole = len(data.rstrip(b"\0"))
    for length in range(1024, whole, 1 if compression else 7):
        cut = bytearray(data[:length])
        cut[16:24] = (length - 1024).to_bytes(8, "little")
        assert not read_damaged(bytes(cut)), length


def test_the_real_file_cut_anywhere_is_refused() -> None:
    data = real_file().read_bytes()
    end = len(data.rstrip(b"\0"))
    for length in range(1024, end, 613):
        cut = bytearray(data[:length])
        cut[16:24] = (length - 1024).to_bytes(8, "little")
        assert not read_damaged(bytes(cut)), length


def paths(value: Any, prefix: str = "") -> Iterator[str]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in items:
        path = f"{prefix}{key}"
        yield path
        yield from paths(each, f"{path}.")


MEMBERS = (
    "neff.json",
    "kelf-0.json",
    "sg00/def.json",
    "sg00/PE.json",
    "sg00/DVE.json",
    "sg00/Activation.json",
    "sg00/tensor_map.json",
    "sg00/act_info.json",
)
WRONG: tuple[Any, ...] = (None, True, -1, 1.5, 1 << 63, "", "text", [], [[]], ["a"], {}, {"a": {}}, ...)


@pytest.mark.parametrize("member", MEMBERS)
def test_a_value_of_a_wrong_type_anywhere_is_refused_or_tolerated(member: str) -> None:
    neff = small_neff()
    refused = 0
    for path in paths(orjson.loads(neff.members[member])):
        for value in WRONG:
            try:
                found = with_members(neff, with_json(neff, member, path, value))
            except FormatError as error:
                one_line(error)
                refused += 1
                continue
            check_neff(found)
            use_everything(found)
    # act_info.json is read only when somebody asks for its sets.
    assert refused == 0 if member == "sg00/act_info.json" else refused > 5


@pytest.mark.parametrize(
    "value", [b"", b"[]", b"1", b"{", b'{"a": NaN}', b"\xff", b"[" * 100_000, b'{"a":1}x']
)
@pytest.mark.parametrize("member", ["neff.json", "kelf-0.json", "sg00/def.json", "sg00/PE.json"])
def test_members_that_are_no_json_object_are_refused(member: str, value: bytes) -> None:
    neff = small_neff()
    with pytest.raises(FormatError, match=member) as caught:
        with_members(neff, {**neff.members, member: value})
    one_line(caught.value)


@pytest.mark.parametrize(
    ("member", "path", "value", "text"),
    [
        ("sg00/PE.json", "dma.3.desc.to_off", "x", "sg00/PE.json, dma[3].desc.to_off: expected an integer"),
        ("sg00/PE.json", "dma.0.id", 1.5, "sg00/PE.json, dma[0].id: expected an integer, found 1.5"),
        ("sg00/PE.json", "dma.2.desc.from_arr.1", 4, "dma[2].desc.from_arr[1]: expected an object"),
        ("sg00/PE.json", "dma.0.desc", ..., "dma[0].desc: expected an object, found none"),
        ("sg00/PE.json", "dma.2.desc.from", "x", "dma[2].desc.from: expected no from fields beside from_arr"),
        (
            "sg00/PE.json",
            "dma.0.desc.to_sizes",
            [1, 2**50],
            "dma[0].desc.to_sizes: expected a list of integers",
        ),
        ("sg00/def.json", "var.x.size", "big", 'sg00/def.json, var.x.size: expected an integer, found "big"'),
        (
            "sg00/def.json",
            "var.x.size",
            2**60,
            "sg00/def.json, var.x.size: expected an integer of at most 48 bits",
        ),
        ("sg00/def.json", "var.x.type", ..., "sg00/def.json, var.x.type: expected this key, found none"),
        ("sg00/def.json", "dma_queue.qIn.pinned", 1, "dma_queue.qIn.pinned: expected true or false, found 1"),
        (
            "sg00/def.json",
            "pe",
            "No.json",
            "sg00/def.json.pe: expected its member 'sg00/No.json', found none",
        ),
        (
            "sg00/def.json",
            "pe_instr",
            "SP.bin",
            "sg00/def.json, pe_instr: expected 'PE.bin', which sg00/PE.json",
        ),
        (
            "kelf-0.json",
            "graphs",
            [],
            "kelf-0.json, graphs: expected at least one subgraph, found an empty list",
        ),
        ("kelf-0.json", "graphs.0.definition", "../x", "kelf-0.json: expected its member '../x', found none"),
        ("neff.json", "nodes.1.attrs.kelf", "k.json", "neff.json: expected its member 'k.json', found none"),
    ],
)
def test_messages_name_the_member_and_the_key(member: str, path: str, value: Any, text: str) -> None:
    neff = small_neff()
    with pytest.raises(FormatError) as caught:
        with_members(neff, with_json(neff, member, path, value))
    assert text in str(caught.value)


@pytest.mark.parametrize("gone", ["neff.json", "kelf-0.json", "sg00/def.json", "sg00/SP.json", "sg00/SP.bin"])
def test_a_missing_member_is_named(gone: str) -> None:
    neff = small_neff()
    members = {name: content for name, content in neff.members.items() if name != gone}
    with pytest.raises(FormatError, match=gone):
        neff_from_members(members, neff.header, "m.neff")


def test_names_with_control_characters_stay_on_one_line() -> None:
    neff = small_neff()
    content = orjson.loads(neff.members["sg00/def.json"])
    content["var"]["a\nb\x1b" + "n" * 5000] = {"type": "magic\n", "var_id": 1, "size": 1}
    neff = with_members(neff, {**neff.members, "sg00/def.json": orjson.dumps(content)})
    for each in check_neff(neff):
        assert each.where.isprintable()
        assert each.text.isprintable()
        assert len(each.where) + len(each.text) < LONGEST
    assert not read_damaged(neff_to_bytes(neff))


def test_two_subgraphs_of_one_name_are_refused() -> None:
    neff = small_neff(cores=2, lnc_size=2)
    with pytest.raises(FormatError, match="each subgraph once"):
        with_members(neff, with_json(neff, "kelf-0.json", "graphs.1.name", "sg00"))


@pytest.mark.parametrize(
    "content", [b"", b"\x93NUMPY", b"\x93NUMPY\x01\x00\xff\xff", b"\x93NUMPY\x09\x00" + bytes(9)]
)
def test_broken_npy_headers_are_refused(content: bytes) -> None:
    neff = small_neff()
    neff = with_members(neff, {**neff.members, "sg00/w.npy": content})
    with pytest.raises(FormatError, match=r"\.npy header"):
        constant_data(neff.subgraphs[0], neff.subgraphs[0].variables["w"])
    assert [each.rule for each in check_neff(neff)] == ["variable.npy"]


def test_random_bytes_are_refused() -> None:
    noise = np.random.default_rng(3)
    for length in (0, 1, 1023, 1024, 5000):
        assert not read_damaged(noise.bytes(length))
    assert not read_damaged(file_of_tar(b""))
    assert not read_damaged(file_of_tar(bytes(1024)))
    assert not read_damaged(file_of_tar(noise.bytes(4096)))


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_flipped_bytes_of_a_plain_file(data: st.DataObject) -> None:
    raw = bytearray(_PLAIN)
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    read_damaged(bytes(raw))


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_flipped_bytes_of_a_compressed_file(data: st.DataObject) -> None:
    raw = bytearray(_COMPRESSED)
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    read_damaged(bytes(raw))


@examples(50, 150)
@given(st.data())
def test_flipped_bytes_of_members(data: st.DataObject) -> None:
    """As the tar's own numbers stay right, these reach the parsers."""
    neff = small_neff()
    names = [name for name, content in neff.members.items() if len(content)]
    name = data.draw(st.sampled_from(names))
    raw = bytearray(neff.members[name])
    for _ in range(data.draw(st.integers(1, 6))):
        position = data.draw(st.integers(0, len(raw) - 1))
        raw[position] = data.draw(st.one_of(st.integers(0, 255), st.sampled_from(b'0123456789-"{}[],:.e')))
    read_damaged(neff_to_bytes(replace(neff, members={**neff.members, name: bytes(raw)}), 0))


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 62), 1 << 62)
    | st.floats(allow_nan=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


@examples(40, 150)
@given(st.data())
def test_any_json_value_anywhere(data: st.DataObject) -> None:
    neff = small_neff()
    member = data.draw(st.sampled_from(MEMBERS))
    path = data.draw(st.sampled_from(sorted(paths(orjson.loads(neff.members[member])))))
    try:
        found = with_members(neff, with_json(neff, member, path, data.draw(json_values)))
    except FormatError as error:
        one_line(error)
        return
    for each in check_neff(found):
        assert each.text.isprintable()
    use_everything(found)


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=400))
def test_any_debug_file(content: bytes) -> None:
    neff = small_neff()
    neff = with_members(neff, {**neff.members, "sg00/pe.dbg": content, "sg00/pe_asm.dbg": content})
    use_everything(neff)


_PLAIN = small_bytes(0)
_COMPRESSED = small_bytes(1)


def test_the_files_that_are_flipped_are_sound() -> None:
    assert read_damaged(_PLAIN)
    assert read_damaged(_COMPRESSED)
    assert parse_neff(_PLAIN, "m").members
