"""Breakpoint texts for what is selected, so that one key sets a breakpoint anywhere."""

import json

from npuviz.program.program import Program
from npuviz.sim.description import MachineDescription
from npuviz.workbench.selection import Selection


def condition_for(
    selection: Selection, description: MachineDescription | None, program: Program | None
) -> str | None:
    """The text of a breakpoint on the selected thing, the most exact one; None if there is none."""
    if selection.instruction is not None:
        return f"instr {selection.instruction}"
    if selection.memory is not None and description is not None:
        area = selection.memory
        memory = next((m for m in description.memories if m.id == area.memory), None)
        if memory is not None:
            return f"write {memory.name} {area.address:#x}..{area.address + area.size_bytes:#x}"
    if selection.node is not None and program is not None and selection.node < len(program.graph.nodes):
        node = program.graph.nodes[selection.node]
        return f"op {json.dumps(node.name or str(node.id), ensure_ascii=False)}"
    if selection.cycles is not None:
        return f"cycle == {selection.cycles[0]}"
    return None
