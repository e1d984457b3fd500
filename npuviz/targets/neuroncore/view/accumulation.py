"""Find the accumulation groups of a program: matrix products that are summed up in one place of PSUM."""

from dataclasses import dataclass

import numpy as np

from npuviz.targets.neuroncore.isa import DST, NUM_ENGINES, PRODUCTS, Engine, Flag, Space
from npuviz.targets.neuroncore.spec import NeuronSpec
from npuviz.targets.neuroncore.tables import Tables


@dataclass(slots=True)
class Group:
    """Products summed up in one place: the first overwrites the contents, the others add to it.

    bank, address  PSUM bank, and byte in the partition; partition  the first of the place
    products       instructions, in program order
    """

    core: int
    bank: int
    address: int
    partition: int
    products: list[int]


def accumulation_groups(spec: NeuronSpec, tables: Tables) -> list[Group]:
    """Return all groups of a program, by core and in the order of their first products."""
    found: list[Group] = []
    code = tables.instructions
    for core in range(tables.num_cores):
        first, end = tables.sequencers[core * NUM_ENGINES + Engine.PE].tolist()
        opcodes = code["opcode"][first:end]
        places = first + np.flatnonzero(np.isin(opcodes, np.array(PRODUCTS)))
        targets = code["operands"][places, DST]
        adds = (code["flags"][places] & Flag.ACCUMULATE) != 0
        open_at: dict[tuple[int, int], Group] = {}
        rows = zip(
            places.tolist(), targets["space"].tolist(), targets["partition"].tolist(),
            targets["address"].tolist(), adds.tolist(), strict=True,
        )  # fmt: skip
        for index, space, partition, address, is_adding in rows:
            if space != Space.PSUM:
                continue
            group = open_at.get((partition, address))
            if group is None or not is_adding:
                group = Group(core, address // spec.psum_bank_bytes, address, partition, [])
                open_at[partition, address] = group
                found.append(group)
            group.products.append(index)
    return found
