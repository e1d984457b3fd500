"""Which lines of a kernel read what others have made: the arrows of its graph."""

from collections.abc import Iterable, Mapping

from npuviz.program.graph import Flow
from npuviz.targets.neuroncore.nki.record.steps import Step
from npuviz.targets.neuroncore.nki.record.tensors import Storage


def flows_of(steps: Iterable[tuple[int, Step]], tensor_of: Mapping[int, int]) -> tuple[Flow, ...]:
    """An arrow for each pair of nodes of which the second reads what the first has written last.

    steps      each with the node it belongs to, in the order in which they run
    tensor_of  tensors of the graph by the numbers of the storages in HBM that come in or go out

    A line of a loop that reads what a later line of the turn before has made has no arrow for it: arrows go
    from earlier lines to later ones.
    """
    found: dict[Flow, None] = {}
    writer: dict[int, int] = {}
    for node, step in steps:
        for storage in _read(step):
            tensor = tensor_of.get(storage.id, -1)
            before = writer.get(storage.id, -1)
            if 0 <= before < node:
                found[Flow(before, node, text=_name(storage))] = None
            elif before < 0 <= tensor and storage.kind == "input":
                found[Flow(-1, node, tensor)] = None
        for target in (step.target, *step.more):
            if target is not None:
                writer[target.storage.id] = node
                tensor = tensor_of.get(target.storage.id, -1)
                if tensor >= 0 and target.storage.kind != "input":
                    found[Flow(node, -1, tensor)] = None
    return tuple(found)


def _read(step: Step) -> list[Storage]:
    """What a step reads: operands, and indices of rows."""
    found = [each.storage for each in step.sources if each is not None]
    for each in (step.target, *step.sources):
        if each is not None and each.row_index is not None:
            found.append(each.row_index[0].storage)
    return found


def _name(storage: Storage) -> str:
    """The name of a tile without its number: each turn of a loop has one of its own."""
    return storage.name.partition("[")[0]
