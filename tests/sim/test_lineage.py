"""Which operators may read what others wrote, and reads of what an operator does not use."""

import numpy as np

from npuviz.program.graph import Graph, Node
from npuviz.program.tensor import Tensor
from npuviz.sim.checks.lineage import readable_sources
from npuviz.sim.checks.memory import memory_hazards
from npuviz.sim.checks.trail import MemoryTrail, accesses_of


def graph(*edges: tuple[tuple[int, ...], int]) -> Graph:
    """Operators by (tensors read, tensor written)."""
    made = {output: number for number, (_, output) in enumerate(edges)}
    count = 1 + max(made)
    tensors = [Tensor(n, f"t{n}", (1,), "float32", "activation", made.get(n, -1)) for n in range(count)]
    nodes = [Node(n, f"n{n}", "Op", "", reads, (output,)) for n, (reads, output) in enumerate(edges)]
    return Graph("g", tuple(nodes), tuple(tensors), (0,), (count - 1,))


def sources(graph: Graph, *present: int) -> list[set[int]]:
    first, rows = readable_sources(graph, present)
    return [set(rows[first[n] : first[n + 1]].tolist()) for n in range(len(graph.nodes))]


def test_producers_and_readers_of_the_same() -> None:
    """t0 -> n0 -> t1 -> n1 -> t2; n2 reads t0 and t2."""
    found = sources(graph(((0,), 1), ((1,), 2), ((0, 2), 3)), 0, 1, 2)
    assert found == [{0, 2}, {0, 1}, {0, 1, 2}]


def test_what_has_no_steps_hands_on_its_producers() -> None:
    """n1 is computed with others."""
    chain = graph(((0,), 1), ((1,), 2), ((2,), 3))
    assert sources(chain, 0, 1, 2)[2] == {1, 2}
    assert sources(chain, 0, 2)[2] >= {0, 1, 2}


def test_lines_of_a_program_say_nothing() -> None:
    first, rows = readable_sources(graph(((), 0), ((), 1)), (0, 1))
    assert (first.tolist(), rows.tolist()) == ([0, 0, 0], [])


def reads_after(writers: list[int], chain: Graph) -> list[str]:
    """Kinds of findings when steps of one thread write the same bytes, by operator, and n2 reads them."""
    count = len(writers) + 1
    rows = [(step, 0, True, True, 0, 1, 0, 8) for step in range(len(writers))]
    trail = MemoryTrail(
        instruction=np.arange(count), thread=np.zeros(count, np.int64), cycle=np.arange(count),
        orders=np.array([(step, step + 1) for step in range(count - 1)], np.int64).reshape(-1, 2),
        accesses=accesses_of([*rows, (count - 1, 0, False, True, 0, 1, 0, 8)]),
        given=accesses_of([]), kept=None, sizes=[(1, 64)], names=["M"],
        unit=lambda index: "U", text=lambda index: f"i{index}",
        node=np.array([*writers, 2]), sources=readable_sources(chain, (0, 1, 2)),
    )  # fmt: skip
    return [hazard.kind for hazard in memory_hazards(trail).hazards]


def test_the_last_writer_has_to_be_one_that_the_reader_uses() -> None:
    chain = graph(((0,), 1), ((1,), 2), ((2,), 3))
    assert reads_after([1], chain) == []
    assert reads_after([0, 1], chain) == []
    assert reads_after([1, 0], chain) == ["overwritten"]
    assert reads_after([1, -1], chain) == []
    assert reads_after([1, 2], chain) == []
    assert reads_after([1, 0], graph(((), 1), ((), 2), ((), 3))) == []


def test_what_is_read_through_hands_on_its_producers_too() -> None:
    """n1 has steps of its own, and n2 reads what n0 made all the same."""
    chain = graph(((0,), 1), ((1,), 2), ((2,), 3))
    first, rows = readable_sources(chain, (0, 1, 2), ("Op",))
    assert 0 in rows[first[2] : first[3]]
