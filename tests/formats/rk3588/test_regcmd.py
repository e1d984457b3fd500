"""Register command streams: text and binary dumps, tails, chains, ping-pong groups, damage."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from npuviz.base.errors import FormatError
from npuviz.formats.rk3588.regcmd.area import Area, read_regcmd
from npuviz.formats.rk3588.regcmd.dump import format_plain, parse_dump
from npuviz.formats.rk3588.regcmd.shadow import effective_registers
from npuviz.formats.rk3588.regcmd.stream import Stream, Tail, amount_of, parse_stream
from npuviz.formats.rk3588.registers import DecodedRegister, Word, registers
from tests.formats.rk3588.cases import DUMPS, check_line, dump_words
from tests.formats.rk3588.streams import chain_streams, format_columns, write_area

DATABASE = registers()
CNA, CORE, DPU, PPU = 0x0201, 0x0801, 0x1001, 0x4001
WIDTHS = tuple(Word(CNA, value, 0x1028) for value in range(1, 9))


def decoded(stream: Stream) -> list[DecodedRegister]:
    """Every word of body and tail in named fields."""
    return [
        DATABASE.decode(word.target, word.offset, word.value)
        for word in (*stream.words, *stream.tail.words())
    ]


def refused(act, *parts: str) -> None:
    with pytest.raises(FormatError) as error:
        act()
    text = str(error.value)
    assert "\n" not in text
    for part in parts:
        assert part in text


# --- dumps ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", DUMPS, ids=lambda path: path.stem)
def test_dump_is_one_stream_that_is_written_back_the_same(path, tmp_path):
    area = read_regcmd(path)
    assert area.words.tolist() == dump_words(path)
    (stream,) = area.streams()
    assert len(stream.words) == 104
    assert stream.tail == Tail(enables=0x0D)
    assert stream.tail.started == ("CNA", "CORE", "DPU")
    assert stream.amount == 53
    assert stream.packed().tolist() == area.words.tolist()
    assert all(register.fields for register in decoded(stream))
    text = path.read_text()
    assert format_columns(area.words, parse_dump(text).comments) == text
    binary = tmp_path / "regcmd.bin"
    binary.write_bytes(area.to_bytes())
    assert read_regcmd(binary).words.tolist() == area.words.tolist()
    plain = tmp_path / "regcmd.txt"
    plain.write_text(format_plain(area.words))
    assert read_regcmd(plain).words.tolist() == area.words.tolist()


@given(st.lists(st.integers(0, (1 << 64) - 1), max_size=20))
def test_any_words_survive_both_text_forms(words):
    packed = np.array(words, np.uint64)
    assert parse_dump(format_plain(packed)).words.tolist() == words
    assert parse_dump(format_columns(packed, ("a", "b"))).words.tolist() == words


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("0000000000000000\n123\n", ("byte 17", "line 2", "'123'")),
        ("1 0201000100041020 0201 00010004 1020\n", ("line 1", "index 0", "found 1")),
        ("0 0201000100041020 0201 00010005 1020\n", ("columns of word 0201000100041020",)),
        ("0 0201000100041020 0201 00010004\n", ("16 hexadecimal digits",)),
        ("word\n" * 3, ("line 1",)),
    ],
)
def test_wrong_text(text, parts):
    refused(lambda: parse_dump(text, "a.txt"), "a.txt", *parts)


def test_binary_with_half_a_word():
    refused(lambda: Area.of_bytes(bytes(12), file="a.bin"), "a.bin, byte 8", "12 bytes")


# --- streams and tails ---------------------------------------------------------------------------


@pytest.mark.parametrize(("body", "amount"), [(108, 55), (104, 53), (26, 14), (17, 10), (13, 8), (12, 7)])
def test_amount_rule(body, amount):
    assert amount_of(body) == amount


TAILS = st.builds(
    Tail,
    enables=st.integers(0, 0x7F).map(lambda bits: bits & 0x7D),
    next_address=st.none() | st.integers(0, (1 << 28) - 1).map(lambda place: place << 4),
    next_amount=st.integers(0, 0xFFFF),
    plan=st.integers(0, 3),
    unknown=st.integers(0, (1 << 14) - 1),
)
WRITES = [
    (block.target, register.offset)
    for block in DATABASE.blocks.values()
    if block.target not in (None, 0, 0x41, 0x81)
    for register in block.registers.values()
]
BODIES = st.lists(
    st.builds(
        lambda at, value: Word(at[0] or 0, value, at[1]), st.sampled_from(WRITES), st.integers(0, 2**32 - 1)
    ),
    min_size=1,
    max_size=30,
).map(tuple)


@given(BODIES, TAILS)
def test_any_stream_survives_packing(body, tail):
    stream = Stream(body, tail)
    packed = stream.packed()
    assert len(packed) % 8 == 0
    assert parse_stream(packed) == stream
    assert parse_stream(packed, body=len(body)) == stream


def packed(*words: Word) -> np.ndarray:
    return np.array([word.packed for word in words], np.uint64)


END = Tail(0x0D).words()


@pytest.mark.parametrize("kept", range(4))
def test_a_stream_without_its_tail(kept):
    words = packed(*WIDTHS, *END[:kept])
    refused(lambda: parse_stream(words, file="a"), "a, byte 0, stream tail", "no tail in")
    refused(lambda: parse_stream(words, body=8, file="a"), "byte 80", "the end of the area")


def test_no_words_at_all():
    refused(lambda: parse_stream(packed()), "no tail in 0 words")
    assert Area(packed()).streams() == ()


@pytest.mark.parametrize(
    ("place", "word", "field"),
    [
        (0, Word(CNA, 0, 0x1010), "next address"),
        (0, Word(0x0101, 0x41, 0x0010), "next address, bits 3:0"),
        (1, Word(0x0101, 0, 0x0010), "next amount"),
        (2, Word(0x0041, 1, 0), "marker"),
        (3, Word(0x0081, 0x0D, 0x0000), "enables"),
        (3, Word(0x0081, 0x8D, 0x0008), "enables, bits 31:7 and 1"),
    ],
)
def test_wrong_tail_words(place, word, field):
    tail = list(END)
    tail[place] = word
    refused(
        lambda: parse_stream(packed(*WIDTHS, *tail), file="a"),
        f"a, byte {64 + 8 * place}, stream tail, {field}",
        str(word),
    )


@pytest.mark.parametrize(
    ("word", "parts"),
    [
        (Word(0x0401, 0, 0x1010), ("target", "0401")),
        (Word(CNA, 0, 0x1FFC), ("register 0x1ffc", "a register of CNA")),
        (Word(DPU, 0, 0x1010), ("register 0x1010", "0x1010 is CNA CONV_CON2")),
        (Word(0x0041, 0, 0), ("a register write in a body",)),
        (Word(0, 7, 0), ("a register write in a body",)),
    ],
)
def test_words_that_no_body_may_hold(word, parts):
    words = packed(WIDTHS[0], word, WIDTHS[0], *END)
    refused(lambda: parse_stream(words, body=3, file="a"), "a, byte 8", *parts)


@pytest.mark.parametrize(
    "tail", [Tail(0x0D, 0x48), Tail(0x0D, 1 << 32), Tail(0x0D, 64, 1 << 16), Tail(0x0D, plan=4), Tail(0x80)]
)
def test_tails_that_cannot_be_written(tail):
    if tail == Tail(0x80):  # a bit without a name: kept, and refused when read
        refused(lambda: parse_stream(Stream(WIDTHS, tail).packed()), "enables, bits 31:7 and 1")
    else:
        refused(lambda: tail.words())


# --- areas and chains ------------------------------------------------------------------------------


def three(address: int = 0x1000) -> tuple[Stream, ...]:
    return chain_streams(((WIDTHS, 0x0D), (WIDTHS[:5], 0x18), (WIDTHS[:3], 0x60)), address=address)


def test_chain_is_placed_announced_and_followed():
    streams = three()
    assert [stream.address for stream in streams] == [0x1000, 0x1080, 0x1100]
    assert streams[0].tail == Tail(0x0D, 0x1080, amount_of(5))
    assert streams[1].tail == Tail(0x18, 0x1100, amount_of(3))
    assert streams[2].tail == Tail(0x60)
    area = write_area(streams, address=0x1000)
    assert area.streams() == streams
    chain = area.chain(0x1000)
    assert (chain.streams, chain.loops_to, chain.findings) == (streams, None, ())
    assert area.chain(0x1080, body=5).streams == streams[1:]


def test_streams_are_only_written_where_they_belong():
    refused(lambda: write_area(three(0x1000)), "stream 0", "address 0x0")


def test_chain_that_leads_back():
    first, second, third = three(0)
    area = write_area((first, second, Stream(third.words, Tail(0x60, 0x80, amount_of(5)), third.address)))
    chain = area.chain(0)
    assert chain.streams[:2] == (first, second)
    assert chain.loops_to == 0x80
    assert "leads back to 0x80" in chain.findings[-1]


def test_chain_with_a_wrong_amount_is_read_and_reported():
    first, second, third = three(0)
    area = write_area((Stream(first.words, Tail(0x0D, 0x80, 9), 0), second, third))
    assert area.chain(0).findings == ("stream 0x0 announces amount 9, stream 0x80 has 4",)


def test_chain_out_of_the_area():
    area = write_area(three(0)[:1])
    refused(lambda: area.chain(0), "tail of stream 0x0, next address", "0x0 to 0x80", "found 0x80")
    refused(lambda: area.chain(0x40000), "stream address", "0x40000")
    refused(lambda: area.stream(4), "stream address")


def test_streams_off_the_line_are_reported():
    words = np.concatenate([np.zeros(1, np.uint64), Stream(WIDTHS, Tail(0x0D)).packed()])
    area = Area(words)
    (stream,) = area.streams()
    assert stream.address == 8
    assert "multiple of 64" in area.chain(8).findings[0]


def test_rest_that_is_no_stream():
    words = np.concatenate([Stream(WIDTHS, Tail(0x0D)).packed(), packed(*WIDTHS)])
    refused(lambda: Area(words, file="a").streams(), "a, byte 128, stream tail")


def test_many_streams_are_found_in_reasonable_time():
    one = Stream(WIDTHS[:1], Tail(0x0D)).packed()
    assert len(Area(np.tile(one, 20_000)).streams()) == 20_000


# --- ping-pong groups ------------------------------------------------------------------------------


def width(value: int) -> Word:
    return Word(CNA, value, 0x1028)


def test_groups_alternate_and_inherit_from_two_tasks_earlier():
    grains = Word(CNA, 0x50, 0x1010)
    bodies = [(width(1), grains), (width(2), grains), (width(3),), (grains,), (width(3),)]
    tasks = effective_registers(Stream(body, Tail(0x0D)) for body in bodies)
    assert [task.groups["CNA"] for task in tasks] == [0, 1, 0, 1, 0]
    assert [task.values[0x1028] for task in tasks] == [1, 2, 3, 2, 3]
    inherited = [{at: task.values[at] for at in task.values.keys() - task.written} for task in tasks]
    assert inherited == [{}, {}, {0x1010: 0x50}, {0x1028: 2}, {0x1010: 0x50}]
    assert dict(tasks[0].changed) == {0x1028: (None, 1), 0x1010: (None, 0x50)}
    assert dict(tasks[2].changed) == {0x1028: (1, 3)}
    assert dict(tasks[3].changed) == {}
    assert dict(tasks[4].changed) == {}
    assert DATABASE.decode(CNA, 0x1028, tasks[2].values[0x1028])["out_width"] == 3


def test_a_block_moves_on_only_when_it_was_started():
    pool = Word(PPU, 3, 0x600C)
    tasks = effective_registers(
        [Stream((width(1), pool), Tail(0x60)), Stream((width(2), pool), Tail(0x0D)), Stream((), Tail(0x0D))]
    )
    assert [task.groups["CNA"] for task in tasks] == [0, 0, 1]
    assert [task.groups["PPU"] for task in tasks] == [0, 1, 1]
    assert dict(tasks[1].changed) == {0x1028: (1, 2), 0x600C: (None, 3)}
    assert tasks[2].values.get(0x1028) is None


def test_pointer_register_rules():
    fixed, cleared = Word(CNA, 0x01, 0x1004), Word(CNA, 0x1E, 0x1004)
    tasks = effective_registers(
        [
            Stream((fixed, width(1)), Tail(0x0D)),  # ping-pong off: bit 0 is the group
            Stream((width(2),), Tail(0x0D)),
            Stream((cleared, width(3)), Tail(0x0D)),  # on again, back to group 0
            Stream((width(4),), Tail(0x0D)),
        ]
    )
    assert [task.groups["CNA"] for task in tasks] == [1, 1, 0, 1]
    assert dict(tasks[3].changed) == {0x1028: (2, 4)}


def test_a_dump_run_four_times_changes_nothing_after_both_groups_are_full():
    (stream,) = read_regcmd(DUMPS[0]).streams()
    first, second, third, fourth = effective_registers([stream] * 4)
    assert (first.groups["DPU"], second.groups["DPU"], third.groups["DPU"]) == (0, 1, 0)
    # 104 writes, S_POINTER exists once.
    assert (len(first.changed), len(second.changed), len(third.changed), len(fourth.changed)) == (
        104,
        103,
        0,
        0,
    )


# --- damage ----------------------------------------------------------------------------------------


def tolerant(data: bytes) -> bool:
    """Whether the bytes are streams; anything but a FormatError of one line fails the test."""
    try:
        area = Area.of_bytes(data, file="a")
        streams = area.streams()
        for stream in streams:
            area.chain(stream.address)
        effective_registers(streams)
    except FormatError as error:
        check_line(error)
        return False
    for stream in streams:
        decoded(stream)
    return True


def test_cut_at_every_byte():
    data = write_area(three(0)).to_bytes()
    whole = [end for end in range(len(data) + 1) if tolerant(data[:end])]
    # Streams may be missing at the end only where the chain does not need them: nowhere but at the
    # very end, after whose tail zeros are cut without harm.
    assert 0 in whole
    assert [end for end in whole if end] == list(range(256 + 7 * 8, len(data) + 1, 8))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_flipped_bytes(data):
    damaged = bytearray(write_area(three(0)).to_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    tolerant(bytes(damaged))


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=200))
def test_random_files(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("dump") / "a"
    path.write_bytes(data)
    try:
        read_regcmd(path).streams()
    except FormatError as error:
        check_line(error)
