"""Searching a run: everything with a name, every instruction, in slices."""

from npuviz.sim.machine import Hazard
from npuviz.workbench.finding.run_search import MAX_OF_A_SORT, Found, RunSearch
from npuviz.workbench.selection import Selection
from tests.toy.session import make_session


def finish(search: RunSearch) -> list[Found]:
    while not search.advance(0.001):
        pass
    return search.found


def test_finds_what_a_plain_loop_finds() -> None:
    session = make_session(blocks=16)
    listing = session.program.listing
    for text in ("ADD", "mul", "12", "spad", "nowhere"):
        found = finish(RunSearch(text, session.program, session.description))
        wanted = [
            number
            for number in range(len(listing))
            if text.casefold()
            in f"{number} {listing.describe(number).opcode} {listing.describe(number).text}".casefold()
        ]
        numbers = [one.selection.instruction for one in found if one.sort == "instruction"]
        assert numbers == wanted[:MAX_OF_A_SORT]
        nodes = [one.selection.node for one in found if one.sort == "operator"]
        graph = session.program.graph
        assert nodes == [n.id for n in graph.nodes if text.casefold() in f"{n.name}\n{n.op_type}".casefold()]


def test_finds_hazards_and_lines_of_a_log_with_their_cycle() -> None:
    session = make_session(blocks=4)
    hazard = Hazard(70, "Core[0].LD", 3, "overwrite", "bytes are read after they were overwritten")
    lines = [Found("log", "deadlock of two units", "error", Selection(), 99)]
    search = RunSearch("OVERWRITTEN", session.program, session.description, [hazard], lines)
    (found,) = finish(search)
    assert (found.sort, found.cycle, found.selection.instruction) == ("hazard", 70, 3)
    (line,) = finish(RunSearch("deadlock", session.program, session.description, [hazard], lines))
    assert line is lines[0]


def test_what_fits_too_often_is_cut_and_said_and_nothing_is_looked_for_without_a_text() -> None:
    session = make_session(blocks=400)
    search = RunSearch("0", session.program, session.description)
    found = finish(search)
    assert sum(one.sort == "instruction" for one in found) == MAX_OF_A_SORT
    assert "instruction" in search.cut
    assert finish(RunSearch("  ", session.program, session.description)) == []
