"""Where the first wrong element was made, on each machine, after bytes were changed under way."""

import numpy as np
import pytest

import npuviz
from npuviz.base.progress import NoProgress
from npuviz.workbench.accuracy.rows import accuracy_rows, checked


@pytest.mark.parametrize("target", ["neuroncore", "rk3588", "systolic"])
def test_the_first_wrong_instruction_belongs_to_the_operator_that_was_spoilt(target: str) -> None:
    with npuviz.open("tiny_cnn.onnx", target=target, settings={"batch": 1}) as found:
        graph = found.program.graph
        home = next(
            each
            for each in found.program.memory_map.allocations
            if graph.tensors[each.tensor].name in ("pool1", "relu1") and each.size_bytes
        )
        producer = graph.nodes[graph.tensors[home.tensor].producer]
        # An operator may be computed by the instructions of the one before it.
        fused = {producer.id, *(graph.tensors[index].producer for index in producer.inputs)}
        session = found.session
        session.run(None, NoProgress())
        before = session.machine.read_memory(home.memory, home.address, 64)
        session.write_memory(home.memory, home.address, bytes(np.frombuffer(before, np.uint8) ^ 1))
        assert session.is_finished
        check = checked(found.opened, session, NoProgress())
        rows = accuracy_rows(graph, check)
        wrong = [row for row in rows if row.errors.own_class == "wrong"]
        assert graph.tensors[home.tensor].name in [row.name for row in wrong]
        assert check.first_instruction >= 0
        assert found.program.listing.describe(check.first_instruction).node in fused
