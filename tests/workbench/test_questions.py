import pytest

from npuviz.base.progress import NoProgress
from npuviz.debug.session import Session
from npuviz.sim.stop import StopKind
from npuviz.workbench.questions import who_reads_next, who_wrote, why_waiting
from npuviz.workbench.selection import MemoryRange
from tests.toy.program import ALU, DRAM, LD
from tests.toy.session import make_session

NOWHERE = NoProgress()


@pytest.fixture
def session() -> Session:
    made = make_session()
    made.run()
    return made


def readers_by_stepping(session: Session, wanted: MemoryRange) -> int | None:
    """Cycle of the next read, found with a breakpoint of the user."""
    start = session.cycle
    end = wanted.address + wanted.size_bytes
    mark = session.breakpoints.add(f"read DRAM {wanted.address:#x}..{end:#x}")
    reason = session.run()
    cycle = session.cycle
    session.breakpoints.remove(mark.id)
    session.go_to(start)
    return cycle if reason.kind is StopKind.BREAKPOINT else None


@pytest.mark.parametrize("cycle", [0, 55, 180, 300, 500, 700])
@pytest.mark.parametrize("tensor", [0, 3, 4, 6])
def test_the_next_reader_is_where_a_breakpoint_stops(session: Session, cycle: int, tensor: int) -> None:
    session.go_to(cycle)
    before = session.machine.digest()
    allocation = session.program.memory_map.of_tensor(tensor)
    assert allocation is not None
    wanted = MemoryRange(DRAM, allocation.address, 16)
    expected = readers_by_stepping(session, wanted)
    found = who_reads_next(session, NOWHERE, wanted)
    assert found.cycle == expected
    assert session.cycle == cycle
    assert session.machine.digest() == before
    if expected is None:
        assert "No instruction reads" in found.text
    elif found.selection is not None:
        reader = session.program.listing.describe(found.selection.instruction or 0)
        assert any(
            operand.memory == DRAM and operand.address < wanted.address + 16
            and wanted.address < operand.address + operand.size_bytes
            for operand in reader.reads
        )  # fmt: skip
        assert reader.unit == LD


def test_breakpoints_do_not_end_the_search_and_are_not_counted(session: Session) -> None:
    session.go_to(0)
    wanted = MemoryRange(DRAM, 0x600, 16)
    free = who_reads_next(session, NOWHERE, wanted)
    mark = session.breakpoints.add("cycle == 5")
    assert who_reads_next(session, NOWHERE, wanted) == free
    assert mark.hits == 0
    assert session.cycle == 0


def test_the_writer_is_found_by_going_back_where_nothing_is_recorded() -> None:
    recorded, plain = make_session(), make_session(records=False)
    for session in (recorded, plain):
        session.run()
        session.go_to(500)
    wanted = MemoryRange(DRAM, 0x600, 16)
    known, found = who_wrote(recorded, wanted), who_wrote(plain, wanted)
    assert known.selection is not None
    assert found.selection is not None
    assert found.selection.instruction == known.selection.instruction
    assert plain.cycle == 500


def test_what_nobody_wrote_has_no_writer(session: Session) -> None:
    session.go_to(500)
    assert who_wrote(session, MemoryRange(DRAM, 0, 4)).text.startswith("No instruction has written DRAM 0x0")


def test_a_wait_names_what_it_waits_for(session: Session) -> None:
    waits = {kind.id for kind in session.description.kinds if kind.role.startswith("wait")}
    assert session.trace is not None
    columns = session.trace.interval_columns(ALU)
    rows = [n for n, kind in enumerate(columns.kind.tolist()) if kind in waits]
    assert rows
    for row in rows:
        end = int(columns.end[row])
        found = why_waiting(session, ALU, end - 1)
        assert found.selection is not None
        assert "wait" in found.text
        assert found.details.count("\n") >= found.text.count("\u2190") - 1
    work = next(n for n, kind in enumerate(columns.kind.tolist()) if kind not in waits)
    assert "does not wait" in why_waiting(session, ALU, int(columns.start[work])).text
