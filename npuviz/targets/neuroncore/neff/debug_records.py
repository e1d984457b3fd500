"""Write debug records of a compiled program, in the vendor's levels: operator, instruction, slot.

They are for other tools and human readers; npuviz loads programs without them.
"""

from collections import defaultdict

import numpy as np

from npuviz.formats.neff.debug_records import DebugFile, DebugRecord, Dependency, debug_bytes
from npuviz.program.graph import Graph
from npuviz.targets.neuroncore.isa import Engine
from npuviz.targets.neuroncore.kernels import records as sk
from npuviz.targets.neuroncore.machine.synchronization import link
from npuviz.targets.neuroncore.spec import NeuronSpec
from npuviz.targets.neuroncore.tables import Tables
from npuviz.targets.neuroncore.text.disassembler import mnemonic

MODEL_LEVEL = "debug_info_model.dbg"
MODEL_MEMBER = f"debug_info/{MODEL_LEVEL}_sg000000"
MAX_INSTRUCTIONS = 100_000
"""Longer programs are written without records, because making those takes longer than compiling."""
_LEVELS = {Engine.PE: 1, Engine.ACTIVATION: 2, Engine.POOL: 3, Engine.DVE: 5, Engine.SP: 6}


class DebugNames:
    """Makes the records; the id of an instruction or node is its index plus 1."""

    def __init__(self, tables: Tables, spec: NeuronSpec, graph: Graph) -> None:
        self._tables, self._graph = tables, graph
        self._needs: defaultdict[int, set[int]] = defaultdict(set)
        links = link(spec, tables)
        sinks = np.repeat(np.arange(len(links.wait_count)), links.wait_count).tolist()
        sources = links.waits[:, sk.WAIT.producer].tolist()
        for sink, source in zip(sinks, sources, strict=True):
            if source >= 0:
                self._needs[sink].add(source)

    def model(self) -> bytes:
        """Return the debug file of the graph's operators."""
        records = tuple(
            DebugRecord(node.id + 1, node.name or node.op_type, attributes={"op_type": node.op_type})
            for node in self._graph.nodes
        )
        return debug_bytes(DebugFile("Operators of the model.", records=records))

    def instructions(self, engine: Engine, first: int, end: int) -> bytes:
        """Return the debug file of an engine's instructions, with the instructions they wait for."""
        code, nodes = self._tables.instructions, self._tables.nodes
        same_core = self._core_range(first)
        records = tuple(
            DebugRecord(
                index + 1,
                f"I-{index}-{mnemonic(code[index])}",
                (int(nodes[index]) + 1,) if nodes[index] >= 0 else (),
                synchronised=tuple(
                    Dependency(each + 1) for each in sorted(self._needs.get(index, ())) if each in same_core
                ),
                # The kinds of the dependencies are not computed here.
                has_kinds=False,
            )
            for index in range(first, end)
        )
        return debug_bytes(DebugFile("Instructions.", MODEL_LEVEL, _LEVELS[engine], records=records))

    def slots(self, engine: Engine, first: int, offsets: np.ndarray, num_slots: int, parent: str) -> bytes:
        """Return a debug file with a record for each slot; `offsets`: byte offsets of the head slots."""
        counts = np.diff(np.append(offsets // 64, num_slots))
        owners = np.repeat(np.arange(first, first + len(offsets)) + 1, counts).tolist()
        shared = {owner: DebugRecord(parents=(owner,)) for owner in owners}
        records = tuple(shared[owner] for owner in owners)
        return debug_bytes(DebugFile("Slots.", parent, _LEVELS[engine], records=records))

    def _core_range(self, index: int) -> range:
        """Return the index range of the instructions of an instruction's core."""
        sequencers = self._tables.sequencers
        number = int(np.searchsorted(sequencers[:, 1], index, side="right"))
        core = min(number // 5, self._tables.num_cores - 1)
        return range(int(sequencers[core * 5, 0]), int(sequencers[core * 5 + 4, 1]))
