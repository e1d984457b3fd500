"""Records: names instead of word positions, compiled and not, equal in every process."""

import os
import pickle
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba import njit as _njit
from numba.core.errors import NumbaError

from npuviz.base.kernels.twins import plain_twin
from npuviz.sim.parts.bits_kernels import is_compiled, pointer_to
from npuviz.sim.parts.record_kernels import Gap, Record, Rest, Rows, RowType, Same, Words, word_of, words_of

njit: Any = _njit

STREAM = Record("stream", total="bytes that may be asked for", done="bytes that came")
CORE = Record(
    "core",
    turn="cycle of the last turn",
    tiles="tiles finished",
    _1=Gap(2),
    ring=Words(8, "entries of the queue, oldest first"),
    head="word of the ring that is oldest",
    streams=Rows(STREAM, 3, "features, weights, results"),
    align=8,
)
HEAD = Record(
    "head", cycle="cycles done", cores="word of core 0", first="first core of a list, -1", at_least=8
)
LINKED = Record("linked", next="word of the next one, -1", count="words behind it", words=Rest("so many"))


def step(head, core, t):
    core.turn = t
    core.tiles += t & 3
    core.ring[core.head] = core.tiles
    core.head = (core.head + 1) & 7
    for number in range(3):
        stream = core.streams[number]
        stream.total += number
        if stream.done < stream.total:
            stream.done = stream.total >> 1
    core[CORE.tiles] ^= core[0]
    head.cycle = t + 1


def run_plain(state, cycles, cores):
    head = HEAD(state)
    for t in range(cycles):
        for number in range(cores):
            step(head, CORE(head, head.cores, number), t)


_step = njit(step)


@njit
def run(state, cycles, cores):
    head = HEAD(pointer_to(state))
    for t in range(cycles):
        for number in range(cores):
            _step(head, CORE(head, head.cores, number), t)


def new_state(cores: int) -> np.ndarray:
    state = np.zeros(HEAD.num_words + cores * CORE.num_words, np.int64)
    HEAD(state).cores = HEAD.num_words
    return state


def test_fields_are_numbered_as_declared() -> None:
    assert (CORE.turn, CORE.tiles, CORE.ring, CORE.head, CORE.streams) == (0, 1, 4, 12, 13)
    assert CORE.num_words == 24  # 19, in whole lines
    assert HEAD.num_words == 8
    assert (LINKED.words, LINKED.num_words) == (2, 2)
    assert STREAM.num_words == 2


def test_no_two_fields_share_a_word() -> None:
    ends = [(field.first, field.first + field.count) for field in CORE.fields.values()]
    assert all(end <= start for (_, end), (start, _) in pairwise(ends))
    assert ends[-1][1] <= CORE.num_words


def test_two_names_for_the_same_words() -> None:
    record = Record("value", address="of an element", value=Same("address", "of a scalar"), count="elements")
    assert (record.address, record.value, record.count, record.num_words) == (0, 0, 1, 2)
    words = np.zeros(2, np.int64)
    record(words).value = 7
    assert record(words).address == 7
    with pytest.raises(KeyError):
        Record("wrong", one=Same("two"), two="")


def test_table_tells_the_layout() -> None:
    lines = CORE.table().splitlines()
    assert lines[0] == "core: 24 words"
    assert lines[3].split() == ["4", "8", "ring", "entries", "of", "the", "queue,", "oldest", "first"]
    assert lines[5].endswith("features, weights, results [stream]")
    assert len(lines) == 6  # a gap has no line


@pytest.mark.parametrize("name", ["table", "num_words", "first_word", "column_of"])
def test_a_field_cannot_have_a_name_of_the_record(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        Record("wrong", align=1, at_least=1, **{name: "what"})


def test_declarations_that_make_no_sense() -> None:
    with pytest.raises(ValueError, match="gap"):
        Record("wrong", _1="what")
    with pytest.raises(ValueError, match="gap"):
        Record("wrong", one=Gap(1))
    with pytest.raises(ValueError, match="behind the rest"):
        Record("wrong", one=Rest(), two="what")
    with pytest.raises(ValueError, match="padded"):
        Record("wrong", two="what", one=Rest(), align=8)


def test_unknown_names_are_reported() -> None:
    with pytest.raises(AttributeError, match="record core has no field turm"):
        print(CORE.turm)
    core = CORE(new_state(1), 8)
    with pytest.raises(AttributeError):
        core.turm = 1
    with pytest.raises(AttributeError):
        core.streams = 1  # several words


def test_plain_rows_show_the_words_of_the_array() -> None:
    state = np.arange(64)
    core = CORE(state, 8, 1)
    assert (core.first_word, core.turn, core[1], core.streams[2].done) == (32, 32, 33, 32 + 13 + 5)
    core.turn, core.ring[3], core[2] = -1, -2, -3
    assert (state[32], state[39], state[34]) == (-1, -2, -3)
    assert LINKED(state, 60).words.tolist() == [62, 63]
    inner = STREAM(CORE(state, 8), CORE.streams, 1)
    assert word_of(state, inner) == 8 + 13 + 2
    assert word_of(CORE(state, 8), inner) == 15
    assert words_of(inner)[0] == state[23]


def test_plain_words_keep_their_type() -> None:
    """Sums wrap as those of compiled kernels do."""
    state = np.full(32, np.iinfo(np.int64).max)
    assert type(CORE(state).turn) is np.int64


def test_columns_of_a_table() -> None:
    state = np.arange(2 + 3 * CORE.num_words)
    assert CORE.column_of(state, 2, 3, "tiles").tolist() == [3, 27, 51]
    assert CORE.column_of(state, 2, 3, "ring").shape == (3, 8)
    assert CORE.column_of(state, 2, 3, "ring")[1, 0] == 2 + 24 + 4
    CORE.column_of(state, 2, 3, "turn")[:] = -1
    assert state[[2, 26, 50]].tolist() == [-1, -1, -1]


def test_make_a_row() -> None:
    words = CORE.make(tiles=4, ring=-1)
    assert words.dtype == np.int64
    assert words.tolist() == [0, 4, 0, 0, *[-1] * 8, *[0] * 12]
    with pytest.raises(KeyError):
        CORE.make(turm=1)


def test_compiled_and_plain_runs_leave_equal_words() -> None:
    compiled, plain = new_state(3), new_state(3)
    run(compiled, 50, 3)
    # The functions themselves: what runs where compilation is off.
    run_plain(plain, 50, 3)
    np.testing.assert_array_equal(compiled, plain)
    assert HEAD(plain).cycle == 50


@pytest.mark.skipif(not is_compiled, reason="there are no kernels")
def test_twins_leave_equal_words() -> None:
    compiled, twin = new_state(3), new_state(3)
    run(compiled, 50, 3)
    plain_twin(run)(twin, 50, 3)
    np.testing.assert_array_equal(compiled, twin)
    linked = _linked()
    assert plain_twin(walk)(linked) == walk(linked)


SHARED = Record("shared", one="a word", _1=Gap(1), other=Same("one"), ring=Words(2), streams=Rows(STREAM, 2))


@njit
def store_shared(state, large):
    row = SHARED(state, 1)
    row.other = large
    row.ring[1] = large + 1
    row.streams[1].done = -large
    row.streams[1][0] = row.one
    row[SHARED.ring] = SHARED.num_words


@pytest.mark.skipif(not is_compiled, reason="there are no kernels")
def test_twins_store_where_compiled_code_does_and_cut_to_words() -> None:
    compiled, twin = np.zeros(12, np.int64), np.zeros(12, np.int64)
    store_shared(compiled, np.uint64((1 << 63) + 5))
    plain_twin(store_shared)(twin, (1 << 63) + 5)
    assert compiled.tolist() == twin.tolist()
    assert twin[1] == 5 - (1 << 63)


@njit
def store_all(state, small, flag, large, number, at):
    head = HEAD(state)
    head.cycle = small
    head.cores = flag
    head.first = large
    head[3] = small
    head[4] = flag
    head[5] = large
    head.cycle += flag
    CORE(state, at).turn = number
    return head.cycle > small


@pytest.mark.skipif(not is_compiled, reason="numpy refuses what does not fit")
def test_other_types_are_stored_as_words() -> None:
    state = np.zeros(32, np.int64)
    assert store_all(state, np.int32(-3), True, np.uint64(1 << 63), 2.75, np.int32(8)) == 1
    assert state[:6].tolist() == [-2, 1, -(1 << 63), -3, 1, -(1 << 63)]
    assert state[8] == 2


@njit
def _take(words, at):
    return words[at]


@njit
def walk(state):
    """Follows a list whose rows are named by their words, and tells positions."""
    s = pointer_to(state)
    head = HEAD(s)
    at, total = head.first, 0
    while at >= 0:
        row = LINKED(s, at)
        for i in range(row.count):
            total += row.words[i]
        if word_of(s, row) != at or word_of(head, row) != at or _take(words_of(row), 1) != row.count:
            return -1
        at = row.next
    return total + 1000 * LINKED.num_words + 10000 * CORE.streams


def _linked() -> np.ndarray:
    state = np.zeros(32, np.int64)
    HEAD(state).first = 20
    state[20:25] = [10, 3, 1, 2, 3]
    state[10:14] = [-1, 2, 10, 20]
    return state


def test_rows_in_a_list() -> None:
    assert walk(_linked()) == 36 + 2000 + 130_000


@pytest.mark.skipif(not is_compiled, reason="what numba says")
def test_compiled_mistakes_are_reported() -> None:
    @njit
    def unknown(state):
        return HEAD(state).cyle

    @njit
    def several(state):
        CORE(state).ring = 1

    state = np.zeros(32, np.int64)
    with pytest.raises(NumbaError, match="cyle"):
        unknown(state)
    with pytest.raises(NumbaError, match="Cannot cast"):
        several(state)
    with pytest.raises(NumbaError):
        store_all(state.astype(np.float64), 1, 1, 1, 1, 1)


def test_types_are_equal_for_equal_layouts() -> None:
    again = Record("stream", total="other words about it", done="")
    other = Record("stream", done="", total="")
    assert RowType(STREAM) == RowType(again)
    assert hash(RowType(STREAM)) == hash(RowType(again))
    assert RowType(STREAM) != RowType(other)
    assert RowType(CORE) == pickle.loads(pickle.dumps(RowType(CORE)))
    assert pickle.loads(pickle.dumps(CORE)).table() == CORE.table()


_PROGRAM = """
import numpy as np
from npuviz.sim.parts.bits_kernels import entry, kernel, pointer_to
from npuviz.sim.parts.record_kernels import Record, Rows, Words

PART = Record("part", left="", right="")
ROW = Record("row", first="", parts=Rows(PART, 2, ""), ring=Words(4, ""))

@kernel
def change(row, i):
    row.parts[1].right += i
    row.ring[i & 3] = row.parts[1].right

@entry
def advance(state, count):
    s = pointer_to(state)
    for i in range(count):
        change(ROW(s, 1), i)
    return ROW.ring

if __name__ == "__main__":
    state = np.zeros(16, np.int64)
    advance(state, 9)
    print(sum(advance.stats.cache_hits.values()), sum(advance.stats.cache_misses.values()), state.tolist())
"""


@pytest.mark.skipif(not is_compiled, reason="there is no cache")
def test_the_cache_on_disk_hits_in_the_next_process(tmp_path: Path) -> None:
    program = tmp_path / "program_with_records.py"
    program.write_text(_PROGRAM)
    root = str(Path(__file__).parents[2])
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": root}
    lines = [
        subprocess.run([sys.executable, program], env=env, check=True, capture_output=True, text=True).stdout
        for _ in range(2)
    ]
    assert lines[0].startswith("0 1 [")
    assert lines[1] == lines[0].replace("0 1", "1 0", 1)
