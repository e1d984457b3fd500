"""Breakpoint texts for what is selected, so that one key sets a breakpoint anywhere."""

import json

from npuviz.program.program import Program
from npuviz.sim.description import MachineDescription, Memory
from npuviz.workbench.selection import MemoryRange, Selection


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
            return f"write {memory_words(memory, area)}"
    if selection.node is not None and program is not None and selection.node < len(program.graph.nodes):
        return f"op {operator_word(program, selection.node)}"
    if selection.cycles is not None:
        return f"cycle == {selection.cycles[0]}"
    return None


def memory_words(memory: Memory, area: MemoryRange) -> str:
    """A range of a memory as conditions name it: `DRAM 0x100..0x180`."""
    return f"{memory.name} {area.address:#x}..{area.address + area.size_bytes:#x}"


def operator_word(program: Program, node: int) -> str:
    """An operator as conditions name it, in quotes."""
    found = program.graph.nodes[node]
    return json.dumps(found.name or str(found.id), ensure_ascii=False)
