"""Writes the breakpoint text for a selection, so that one key sets a breakpoint on anything."""

import json

from npuviz.program.program import Program
from npuviz.sim.description import MachineDescription, Memory
from npuviz.workbench.selection import MemoryRange, Selection


def condition_for(
    selection: Selection, description: MachineDescription | None, program: Program | None
) -> str | None:
    """Return the text of the most exact breakpoint for a selection, None if nothing in it can have one."""
    if selection.instruction is not None:
        return f"instr {selection.instruction}"
    if selection.memory is not None and description is not None:
        area = selection.memory
        memory = next((m for m in description.memories if m.id == area.memory), None)
        if memory is not None:
            return f"write {memory_words(memory, area)}"
    if selection.node is not None and program is not None and selection.node < len(program.graph.nodes):
        return f"op {operator_word(program, selection.node)}"
    if selection.cycles is not None:
        return f"cycle == {selection.cycles[0]}"
    return None


def memory_words(memory: Memory, area: MemoryRange) -> str:
    """Return a range of a memory in the syntax of conditions: `DRAM 0x100..0x180`."""
    return f"{memory.name} {area.address:#x}..{area.address + area.size_bytes:#x}"


def operator_word(program: Program, node: int) -> str:
    """Return the name of an operator (its id if it has none) in the syntax of conditions: quoted."""
    found = program.graph.nodes[node]
    return json.dumps(found.name or str(found.id), ensure_ascii=False)
