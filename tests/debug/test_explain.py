import pytest

from npuviz.debug.explain import last_writer, what_at, why
from npuviz.debug.session import Session
from npuviz.sim.machine import Region
from tests.toy.program import ALU, DRAM, LD, SPAD, ST
from tests.toy.session import make_session


@pytest.fixture
def session() -> Session:
    session = make_session()
    session.run()
    return session


@pytest.mark.parametrize("cycle", [55, 58, 59, 300, 527, 767])
def test_last_writer_of_dram_is_the_newest_store_before_now(session: Session, cycle: int) -> None:
    session.go_to(cycle)
    listing = session.program.listing
    memory = session.description.memories[DRAM]
    assert session.trace is not None
    for address in (0x600, 0x640, 0x8FF, 0xDFF):
        expected = [
            (int(end), int(index))
            for end, index in zip(
                session.trace.interval_columns(ST).end,
                session.trace.interval_columns(ST).instruction,
                strict=True,
            )
            if end <= cycle
            and index >= 0
            and listing.describe(int(index)).opcode == "STORE"
            and (operand := listing.describe(int(index)).writes[0]).address <= address
            and address < operand.address + operand.size_bytes
            and _is_store(session, int(index), int(end))
        ]
        found = last_writer(session, memory, address)
        assert (None if found is None else (found.cycle, found.instruction.index)) == max(
            expected, default=None
        )


def _is_store(session: Session, index: int, end: int) -> bool:
    assert session.trace is not None
    row = session.trace.at(ST, end - 1)
    return row is not None and int(row["kind"]) == 3 and int(row["instruction"]) == index


def test_last_writer_of_a_bank_after_its_contents_are_gone(session: Session) -> None:
    session.go_to(400)
    assert session.trace is not None
    memory = session.description.memories[SPAD]
    held = session.machine.regions(SPAD)
    rows = session.trace.lifetimes(SPAD, (0, 400))
    free = [
        row for row in rows[::-1] if row["end"] <= 400 and not any(r.address == row["address"] for r in held)
    ]
    assert free
    last = free[0]
    found = last_writer(session, memory, int(last["address"]) + 5)
    assert found is not None
    assert (found.instruction.index, found.since) == (last["instruction"], last["start"])


def test_addresses_are_checked(session: Session) -> None:
    memory = session.description.memories[SPAD]
    for address in (-1, memory.size_bytes):
        with pytest.raises(ValueError, match="expected an address below"):
            last_writer(session, memory, address)


def test_what_at_says_what_the_trace_says(session: Session) -> None:
    assert session.trace is not None
    session.go_to(10)
    for unit in (LD, ALU, ST):
        for cycle in range(0, 760, 7):
            row = session.trace.at(unit, cycle)
            found = what_at(session, unit, cycle)
            if row is not None and cycle != 10:
                assert found is not None
                assert (found.start, found.end) == (row["start"], row["end"])
    assert what_at(session, LD, 5000) is None


def test_a_gap_is_idleness(session: Session) -> None:
    session.go_to(0)
    assert session.trace is not None
    last = session.trace.interval_columns(LD).end[-1]
    found = what_at(session, LD, int(last) + 1)
    assert found is not None
    assert (found.what, found.start, found.end, found.is_wait) == ("idle", last, -1, True)


def test_the_chain_follows_waits_to_work(session: Session) -> None:
    session.go_to(0)
    waiting = 0
    for cycle in range(1, 760):
        for unit in (LD, ALU, ST):
            chain = why(session, unit, cycle)
            assert chain[0].unit == unit
            assert all(cause.is_wait for cause in chain[:-1])
            assert len({cause.unit for cause in chain}) == len(chain)
            waiting += len(chain) > 1
    assert waiting > 100


def test_the_producer_of_a_waiting_instruction_is_named() -> None:
    session = make_session(blocks=1)
    session.run()
    assert session.trace is not None
    columns = session.trace.interval_columns(LD)
    kinds = {kind.id: kind.name for kind in session.description.kinds}
    places = [i for i in range(len(columns)) if kinds[int(columns.kind[i])] == "operand not stored"]
    assert places
    start, end = int(columns.start[places[0]]), int(columns.end[places[0]])
    session.go_to(0)
    chain = why(session, LD, end - 1)
    assert (chain[0].what, chain[0].start) == ("operand not stored", start)
    assert chain[1].unit == ST
    assert chain[1].what == "STORE"


def test_why_follows_the_semaphore_a_unit_waits_for() -> None:
    session = make_session(stuck_at=9, records=False)
    session.run()
    chain = why(session, LD, session.cycle)
    assert [cause.unit for cause in chain] == [LD, ST, ALU]
    assert all(cause.is_wait for cause in chain)


def test_regions_over_banks_hold_a_byte_of_each() -> None:
    region = Region(0x1040, 0x20, -1, "tile", (3, 8), "float32", True, 0, banks=3)
    held = [address for address in range(0, 0x6000, 0x10) if region.holds(address, 0x1000)]
    assert held == [0x1040, 0x1050, 0x2040, 0x2050, 0x3040, 0x3050]
    assert region.total_bytes == 0x60
