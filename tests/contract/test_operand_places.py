"""The inspector's links to operands of tiles lead to the bytes that the machine used."""

import pytest

from npuviz.base.progress import NoProgress
from npuviz.debug.session import Session
from npuviz.sim.stop import StopKind
from npuviz.ui.inspector.facts import InspectorSource
from npuviz.ui.inspector.instruction import in_its_bank
from npuviz.ui.kit.trace_facts import intervals_of_instruction
from npuviz.workbench.breakpoint_text import condition_for
from npuviz.workbench.choosing import find_file
from npuviz.workbench.opening import OpenOptions, open_file
from npuviz.workbench.selection import MemoryRange, Selection


@pytest.fixture(scope="module")
def session() -> Session:
    opened = open_file(find_file("tiny_cnn"), OpenOptions("systolic"), NoProgress())
    assert opened.session is not None
    opened.session.run()
    return opened.session


def test_operands_are_where_the_trace_has_them(session: Session) -> None:
    reader, memories = session.trace, session.description.memories
    assert reader is not None
    source = InspectorSource(session.program, session.description, reader, session, session.cycle)
    moved = 0
    for index in range(len(session.program.listing)):
        found = session.program.listing.describe(index)
        runs = intervals_of_instruction(reader, index, found.unit)
        for operand in (*found.reads, *found.writes):
            if not runs or memories[operand.memory].num_banks < 2:
                continue
            start = runs[-1].start
            placed = in_its_bank(source, found, operand, start)
            held = reader.lifetimes(operand.memory, (start, start + 1))["address"].tolist()
            assert placed.address in held, (index, operand)
            moved += placed.address != operand.address
    assert moved > 100, "both halves of the memories are used"


def test_the_breakpoint_of_a_link_hits(session: Session) -> None:
    listing, description = session.program.listing, session.description
    reader = session.trace
    assert reader is not None
    source = InspectorSource(session.program, description, reader, session, session.cycle)
    index = next(i for i in range(len(listing)) if listing.describe(i).opcode == "GEMM_PRELOAD")
    found = listing.describe(index)
    run = intervals_of_instruction(reader, index, found.unit)[-1]
    operand = in_its_bank(source, found, found.writes[0], run.start)
    area = MemoryRange(operand.memory, operand.address, operand.size_bytes)
    text = condition_for(Selection(memory=area), description, session.program)
    assert text is not None
    point = session.breakpoints.add(text)
    try:
        session.restart()
        reason = session.run()
        assert reason.kind is StopKind.BREAKPOINT
        assert reason.cycle <= run.end
    finally:
        session.breakpoints.remove(point.id)
        session.run()
