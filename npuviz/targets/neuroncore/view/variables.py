"""Where a program keeps its tiles and tensors under which names."""

from collections.abc import Sequence

from npuviz.program.graph import Graph
from npuviz.program.variables import VariablePlace
from npuviz.targets.neuroncore.ids import hbm_memory, memory_of_space, partition_bytes
from npuviz.targets.neuroncore.spec import NeuronSpec
from npuviz.targets.neuroncore.tables import Tables


def names_of_tile(tables: Tables, graph: Graph, tile: int) -> tuple[str, ...]:
    """Return the names of an allocation: those of the program's text, else that of its tensor; () if none."""
    named = tables.tile_names[tile] if tables.tile_names else ""
    if named:
        return named, *(tables.tile_aliases[tile] if tables.tile_aliases else ())
    tensor = int(tables.allocations[tile]["tensor"])
    return (graph.tensors[tensor].name,) if tensor >= 0 else ()


def variable_places(tables: Tables, spec: NeuronSpec, graph: Graph) -> Sequence[VariablePlace]:
    """Return the places of tiles in SBUF and PSUM, and of tensors in HBM, once for each of their names.

    What functions call a tile besides is left out where another tile was made under that name.
    """
    found: list[VariablePlace] = []
    made = {*tables.tile_names, *(variable.name for variable in tables.variables)}
    for tile, row in enumerate(tables.allocations):
        core, space = int(row["core"]), int(row["space"])
        size = tables.tile_bytes[tile] if tables.tile_bytes else int(row["size_bytes"])
        own, *others = names_of_tile(tables, graph, tile) or ("",)
        for name in filter(None, (own, *(each for each in others if each not in made))):
            found.append(
                VariablePlace(
                    name,
                    memory_of_space(core, space),
                    int(row["address"]),
                    size,
                    max(1, int(row["partitions"])),
                    partition_bytes(spec, space),
                    int(row["first"]),
                    int(row["last"]),
                )
            )
    hbm = hbm_memory(spec)
    found += [VariablePlace(v.name, hbm, v.address, v.size_bytes) for v in tables.variables]
    return tuple(found)
