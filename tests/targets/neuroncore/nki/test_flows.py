"""Arrows of a kernel's graph: which lines read what others have made."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from npuviz.program.graph import Graph
from npuviz.targets.neuroncore.neff.record import Payload, graph_record, read_graph
from npuviz.targets.neuroncore.nki.flows import flows_of
from tests.targets.neuroncore.nki.running import FIRST, SECOND, loaded, random

SUM_OF_ROWS = f"""{FIRST}
@nki.jit
def kernel(a, w):
    out = nl.ndarray((128, 512), dtype=a.dtype, buffer=nl.shared_hbm)
    total = nl.zeros((128, 512), dtype=nl.float32)
    for i in nl.sequential_range(3):
        part = nl.load(a[i])
        scaled = nl.multiply(part, nl.load(w))
        total[...] = nl.add(total, scaled)
    nl.store(out, total)
    return out
"""


def _arrows(graph: Graph) -> set[tuple[str, str, str]]:
    """Arrows as (from, to, what), operators by name and number of their line."""

    def end(node: int, tensor: int) -> str:
        if node < 0:
            return graph.tensors[tensor].name
        found = graph.nodes[node]
        return f"{found.op_type} {found.name.rpartition(':')[2]}"

    return {(end(each.source, each.tensor), end(each.sink, each.tensor), each.text) for each in graph.flows}


def _graph(folder: Path) -> Graph:
    _, program = loaded(folder, SUM_OF_ROWS, {"a": random(3, 128, 512), "w": random(128, 512)}, preset="trn1")
    return program.graph


def test_arrows_lead_from_who_made_a_tile_to_who_reads_it(tmp_path: Path) -> None:
    first = SUM_OF_ROWS.splitlines().index("    total = nl.zeros((128, 512), dtype=nl.float32)") + 1
    load_a, scale, add, store = (str(first + n) for n in (2, 3, 4, 5))
    arrows = _arrows(_graph(tmp_path))
    assert {
        ("a", f"load {load_a}", ""),
        ("w", f"load {scale}", ""),
        (f"load {load_a}", f"tensor_tensor {scale}", "part"),
        (f"tensor_tensor {scale}", f"tensor_tensor {add}", "scaled"),
        (f"tensor_tensor {add}", f"store {store}", "total"),
        (f"store {store}", "out", ""),
    } <= arrows
    # What the turn before has made comes from a line that is no earlier one.
    assert not [each for each in arrows if each[0] == each[1]]


def test_arrows_lead_forwards_and_every_operator_is_reached(tmp_path: Path) -> None:
    graph = _graph(tmp_path)
    assert all(flow.source < flow.sink for flow in graph.flows if flow.sink >= 0)
    assert {node.id for node in graph.nodes} == {
        node for flow in graph.flows for node in (flow.source, flow.sink) if node >= 0
    }


def test_both_results_of_a_step_have_arrows(tmp_path: Path) -> None:
    text = f"""{SECOND}
@nki.jit
def kernel(a):
    out = nl.ndarray((128, 8), dtype=nl.uint32, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a)
    values = nl.ndarray((128, 8), dtype=nl.float32, buffer=nl.sbuf)
    places = nl.ndarray((128, 8), dtype=nl.uint32, buffer=nl.sbuf)
    nisa.max8(dst=values, src=tile)
    nisa.nc_find_index8(dst=places, data=tile, vals=values)
    nisa.dma_copy(dst=out, src=places)
    return out
"""
    _, program = loaded(tmp_path, text, {"a": random(128, 64)})
    named = {flow.text for flow in program.graph.flows}
    assert {"tile", "values", "places"} <= named


def test_second_results_and_indices_of_rows_have_arrows() -> None:
    def tensor(number: int, rows: Any = None) -> Any:
        storage = SimpleNamespace(id=number, name=f"t{number}[1]", kind="scratch")
        return SimpleNamespace(storage=storage, row_index=None if rows is None else (rows,))

    first, second, places, table = (tensor(number) for number in range(4))
    steps: list[Any] = [
        (0, SimpleNamespace(target=first, sources=(), more=(second,))),
        (1, SimpleNamespace(target=places, sources=(first, None), more=())),
        (2, SimpleNamespace(target=table, sources=(second,), more=())),
        (3, SimpleNamespace(target=tensor(4), sources=(tensor(3, places),), more=())),
    ]
    found = {(flow.source, flow.sink, flow.text) for flow in flows_of(steps, {})}
    assert found == {(0, 1, "t0"), (0, 2, "t1"), (1, 3, "t2"), (2, 3, "t3")}


@pytest.mark.parametrize(
    "flow", [(0, 0, -1, "t"), (1, 0, -1, "t"), (-1, 0, 2, ""), (0, -1, -1, ""), (0, 99, -1, "t")]
)
def test_a_file_keeps_the_arrows_and_those_that_lead_nowhere_are_refused(
    tmp_path: Path, flow: tuple[object, ...]
) -> None:
    graph, members = _graph(tmp_path), dict[str, Payload]()
    record = json.loads(json.dumps(graph_record(graph, {}, members)))
    assert read_graph(record, members, {}).flows == graph.flows
    assert graph.flows
    record["flows"].append(flow)
    with pytest.raises(ValueError, match="a flow from operator"):
        read_graph(record, members, {})
