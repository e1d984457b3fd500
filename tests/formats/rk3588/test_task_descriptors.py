"""Task tables: records, their streams, and tables that point nowhere."""

from dataclasses import astuple, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npuviz.base.errors import FormatError
from npuviz.formats.rk3588.regcmd.area import Area, read_regcmd
from npuviz.formats.rk3588.registers import Word
from npuviz.formats.rk3588.task_descriptors import TASK_BYTES, Task, parse_tasks, task_streams
from tests.formats.rk3588.cases import DUMPS, check_line
from tests.formats.rk3588.streams import chain_streams, convolution_task, pack_tasks, pooling_task, write_area

BODY = tuple(Word(0x0201, value, 0x1028) for value in range(9))
STREAMS = chain_streams(((BODY, 0x0D), (BODY[:2], 0x60)))
AREA = write_area(STREAMS)
TASKS = (convolution_task(STREAMS[0], op_index=1), pooling_task(STREAMS[1], op_index=1))

word32 = st.integers(0, 0xFFFFFFFF)
events = st.integers(0, 0x1FFFF)
ANY_TASK = st.builds(
    Task,
    word32,
    word32,
    st.integers(0, 0x7F).map(lambda bits: bits & 0x7D),
    events,
    events,
    events,
    st.integers(1, 0xFFFF),
    st.integers(0, 0x1FFFFFFF).map(lambda place: place * 8),
    st.integers(0, (1 << 61) - 1).map(lambda place: place * 8),
)


def refused(act, *parts: str) -> None:
    with pytest.raises(FormatError) as error:
        act()
    check_line(error.value)
    for part in parts:
        assert part in str(error.value)


def test_a_record_is_forty_bytes_in_the_documented_order():
    task = Task(1, 2, 0x0D, 0x300, 0x1FFFF, 5, 104, 0x380, 0x1122334455667788)
    assert task.packed().hex() == (
        "01000000" "02000000" "0d000000" "00030000" "ffff0100" "05000000" "68000000" "80030000"
        "8877665544332211"
    )  # fmt: skip
    assert parse_tasks(task.packed()) == (task,)
    assert task.start == 0x1122334455667788 + 0x380


@given(st.lists(ANY_TASK, max_size=5))
def test_any_table_survives(tasks):
    assert list(parse_tasks(pack_tasks(tasks))) == tasks


def test_usual_descriptors_of_a_dump():
    area = read_regcmd(DUMPS[0])
    (stream,) = area.streams()
    task = convolution_task(stream)
    assert astuple(task) == (0, 0, 0x0D, 0x300, 0x1FFFF, 0, 104, 0, 0)
    assert task_streams([task], area) == (stream,)
    assert pooling_task(STREAMS[1]).interrupt_mask == 0xC00


def test_streams_of_a_table_by_absolute_address_and_by_shared_base():
    assert task_streams(TASKS, AREA) == STREAMS
    shared = [replace(task, address=0, offset=task.address) for task in TASKS]
    assert task_streams(shared, AREA) == STREAMS


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({"address": 0x40000}, ("task 1, regcmd_addr + regcfg_offset", "0x0 to 0xc0", "0x40000")),
        ({"offset": 4}, ("task 1, regcmd_addr + regcfg_offset", "0x84")),
        ({"address": 1 << 63}, ("task 1, regcmd_addr",)),
        ({"amount": 5}, ("task 1, regcfg_amount", "5 words from word 16 on")),
        ({"amount": 3}, ("byte 168", "after a body of 3 words")),
        ({"enables": 0x0D}, ("byte 168", "task 1, enable_mask", "0x60", "found 0xd")),
    ],
)
def test_tables_that_point_elsewhere(change, parts):
    tasks = [TASKS[0], replace(TASKS[1], **change)]
    refused(lambda: task_streams(tasks, AREA), *parts)


@pytest.mark.parametrize(
    ("place", "value", "parts"),
    [
        (2, 0x80, ("byte 48", "task 1, enable_mask", "0x7d", "found 0x80")),
        (3, 1 << 17, ("byte 52", "task 1, int_mask")),
        (4, 1 << 31, ("byte 56", "task 1, int_clear")),
        (5, 1 << 20, ("byte 60", "task 1, int_status")),
        (6, 0, ("byte 64", "task 1, regcfg_amount", "at least 1 word")),
        (6, 1 << 16, ("byte 64", "task 1, regcfg_amount")),
        (7, 12, ("byte 68", "task 1, regcfg_offset", "multiple of 8")),
        (8, 4, ("byte 72", "task 1, regcmd_addr", "multiple of 8")),
    ],
)
def test_each_field_is_checked(place, value, parts):
    data = bytearray(pack_tasks(TASKS))
    data[TASK_BYTES + 4 * place : TASK_BYTES + 4 * place + 4] = value.to_bytes(4, "little")
    refused(lambda: parse_tasks(bytes(data), file="a"), "a, ", *parts)
    values = list(astuple(TASKS[0]))
    values[place] = value
    refused(lambda: Task(*values).packed(), parts[1].partition(", ")[2])


def test_values_that_do_not_fit():
    refused(lambda: replace(TASKS[0], flags=1 << 32).packed(), "flags")
    refused(lambda: replace(TASKS[0], op_index=-1).packed(), "op_idx")


def test_cut_at_every_byte():
    data = pack_tasks(TASKS)
    for end in range(len(data) + 1):
        if end % TASK_BYTES:
            refused(lambda end=end: parse_tasks(data[:end], file="a", at=100), f"byte {100 + end // 40 * 40}")
        else:
            assert parse_tasks(data[:end]) == TASKS[: end // TASK_BYTES]


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_flipped_bits(data):
    table, area = bytearray(pack_tasks(TASKS)), bytearray(AREA.to_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        damaged = data.draw(st.sampled_from([table, area]))
        damaged[data.draw(st.integers(0, len(damaged) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    try:
        task_streams(parse_tasks(bytes(table)), Area.of_bytes(bytes(area)))
    except FormatError as error:
        check_line(error)
