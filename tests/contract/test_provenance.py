"""What bytes are made of and who uses them, on every machine that tells what its work touches."""

import itertools
from typing import Any

import numpy as np
import pytest

import npuviz
from npuviz.api.session import DebugSession
from npuviz.base.errors import UsageError
from npuviz.debug.provenance import Provenance, Step, provenance_of
from npuviz.sim.access_order import HasAccessOrder

TARGETS = ("neuroncore", "rk3588", "systolic")


@pytest.fixture(scope="module", params=TARGETS)
def session(request: pytest.FixtureRequest) -> Any:
    with npuviz.open("tiny_cnn.onnx", target=request.param, settings={"batch": 1}) as found:
        found.run()
        yield found


def _place(session: DebugSession, name: str) -> tuple[Any, int]:
    memory, address = session._place(name)
    found = session.description.memory_named(memory)
    assert found is not None
    return found, address


def _everything(found: Provenance, root: Step) -> tuple[set[str], set[int]]:
    """Names that a step was made from in the end, and the instructions on the way."""
    names, places, todo = set[str](), set[int](), [root]
    instructions = set[int]()
    while todo:
        step = todo.pop()
        if step.place in places:
            continue
        places.add(step.place)
        instructions.add(step.instruction.index)
        for origin in found.origins(step.place):
            if origin.step is None:
                names.add(origin.name)
            else:
                assert origin.step.place < step.place
                assert origin.step.cycle <= step.cycle
                todo.append(origin.step)
    return names, instructions


def test_an_output_is_made_from_every_weight_and_operator(session: DebugSession) -> None:
    session.goto(1 << 40)
    found = provenance_of(session.session)
    writer = found.writer(*_place(session, "classifier"))
    assert writer is not None
    assert writer.operator == "classifier"
    names, instructions = _everything(found, writer)
    graph = session.program.graph
    nodes = {session.program.listing.describe(index).node for index in instructions} - {-1}
    operators = {graph.nodes[node].name for node in nodes}
    assert {"conv1", "conv2", "conv3", "residual", "classifier"} <= operators
    weights = {
        tensor.name for tensor in graph.tensors if tensor.kind == "weight" and "shape" not in tensor.name
    }
    missing = {w for w in weights if not any(w in name or w.split(".")[0] in name for name in names)}
    assert not missing
    assert not any("nobody has written" in name for name in names), names


def test_the_writer_is_the_one_that_who_names(session: DebugSession) -> None:
    session.goto(1 << 40)
    graph = session.program.graph
    checked = 0
    for allocation in session.program.memory_map.allocations:
        name = graph.tensors[allocation.tensor].name
        if graph.tensors[allocation.tensor].kind in ("activation", "output"):
            known = session.who(name)
            writer = provenance_of(session.session).writer(*_place(session, name))
            if known.pairs.get("writer") is not None:
                assert writer is not None, name
                assert writer.instruction.index == known["writer"], name
                checked += 1
    assert checked >= 3


def test_who_reads_an_input_is_the_same_at_every_cycle(session: DebugSession) -> None:
    tensor = session.program.graph.tensors[session.program.graph.inputs[0]].name
    session.goto(1 << 40)
    end, digest = session.cycle, session.do("digest")["digest"]
    for cycle in (end, end // 2, end // 3):
        session.goto(cycle)
        before = session.do("digest")["digest"]
        found = provenance_of(session.session).readers(*_place(session, tensor))
        writer = provenance_of(session.session).writer(*_place(session, tensor))
        assert found.writer == writer
        if found.outputs:
            assert found.outputs == ("classifier",)
            assert {step.operator for step in found.steps} <= {"conv1", "input", ""}
        assert session.cycle == cycle
        assert session.do("digest")["digest"] == before
    session.goto(end)
    assert session.do("digest")["digest"] == digest
    assert found.outputs is not None


def test_what_nobody_needs_reaches_no_output(session: DebugSession) -> None:
    """A byte of the output itself is its end; nobody reads it."""
    session.goto(1 << 40)
    found = provenance_of(session.session).readers(*_place(session, "classifier"))
    assert found.overwritten is None
    assert found.outputs == ("classifier",)
    assert all(step.operator in ("", "classifier") for step in found.steps)


def test_commands_answer_and_a_machine_without_orders_says_so(session: DebugSession) -> None:
    session.goto(1 << 40)
    answer = session.do("origin classifier 2")
    depths = [row["depth"] for row in answer]
    assert depths[0] == 0
    assert max(depths) == 2
    assert all(later - earlier <= 1 for earlier, later in itertools.pairwise(depths))
    assert session.do("readers classifier")["reaches"] == ["classifier"]
    assert session.origin("classifier", 2).rows == answer.rows
    assert session.readers(("DDR", 0) if session.target == "rk3588" else "classifier").columns
    with pytest.raises(UsageError, match="'nowhere': neither a memory"):
        session.do("origin nowhere 0")
    with pytest.raises(UsageError, match="expected an address below"):
        session.do(f"readers {session.description.memories[0].name} 0x7fffffffffff")
    with pytest.raises(UsageError, match="expected a depth"):
        session.do("origin classifier -1")


def test_before_the_first_cycle_nobody_has_written() -> None:
    with npuviz.open("tiny_cnn.onnx", target="systolic", settings={"batch": 1}) as found:
        assert len(found.do("origin classifier")) == 0
        answer = found.do("readers input")
        assert answer["reaches"] is None
        assert "has not ended" in answer.note
        found.run(300)
        early = found.do("readers input")
        assert early["followed_to"] == 300
        assert len(early) == 1


def test_accesses_of_every_machine_agree_with_their_exact_bytes(session: DebugSession) -> None:
    machine = session.session.machine
    assert isinstance(machine, HasAccessOrder)
    table = machine.access_table()
    kinds, patterns = table.traits
    assert len(kinds) == len(patterns) == len(table.rows)
    if table.exact is None:
        return
    owner = np.repeat(np.arange(len(table.first) - 1), np.diff(table.first))
    sizes = {memory.id: memory.bank_bytes for memory in session.description.memories}
    for row in range(0, len(table.rows), max(1, len(table.rows) // 60)):
        memory, write, bank, _, low, _, _ = table.rows[row].tolist()
        address = bank * sizes[memory] + low
        assert table.exact.touches(int(owner[row]), memory, address, is_write=bool(write))
