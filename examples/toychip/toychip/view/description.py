"""What the chip consists of, as data."""

from npuviz.program.program import Program
from npuviz.sim.description import Box, ClockDomain, Link, MachineDescription, Memory, Queue, Unit
from npuviz.trace.schema import Kind, Track
from toychip.isa import ALU, DRAM, LD, LOAD, SEQ, SPAD, ST, UNITS, WAIT
from toychip.spec import ToySpec

_DOCS = ("hands out instructions", "loads blocks", "multiplies and adds blocks", "stores blocks")


def describe(spec: ToySpec, program: Program) -> MachineDescription:
    """The description of a chip with one program."""
    dram = sum(place.size_bytes for place in program.memory_map.allocations)
    return MachineDescription(
        target="toychip",
        title="Toy chip",
        clocks=(ClockDomain("core", float(spec.hz)),),
        units=tuple(Unit(number, f"Core.{UNITS[number]}", "Core", _DOCS[number]) for number in range(4)),
        memories=(
            Memory(DRAM, "DRAM", "dram", dram),
            Memory(SPAD, "Core.SPAD", "scratchpad", spec.slots * 3 * spec.block_bytes, spec.slots),
        ),
        queues=tuple(
            Queue(unit - 1, f"Core.{UNITS[unit]}", unit, spec.queue, f"Core.{UNITS[unit]}.occupancy")
            for unit in (LD, ALU, ST)
        ),
        links=(Link(SEQ, LD), Link(SEQ, ALU), Link(SEQ, ST), Link(LD, ALU), Link(ALU, ST)),
        tracks=(
            *(Track(unit - 1, f"Core.{UNITS[unit]}", "interval", unit) for unit in (LD, ALU, ST)),
            *(
                Track(unit + 2, f"Core.{UNITS[unit]}.occupancy", "counter", unit, "entries", spec.queue)
                for unit in (LD, ALU, ST)
            ),
        ),
        kinds=(
            Kind(LOAD, "LOAD", "move-in", "copies a block from DRAM to the scratchpad"),
            Kind(LOAD + 1, "MUL", "compute", "multiplies two blocks"),
            Kind(LOAD + 2, "ADD", "compute", "adds two blocks"),
            Kind(LOAD + 3, "STORE", "move-out", "copies a block to DRAM"),
            Kind(WAIT, "operand or slot", "wait-dependency", "what it depends on has not ended"),
        ),
        floorplan=(
            Box(0, 0, 8, 8, "SEQ", unit=SEQ, role="control"),
            Box(10, 0, 8, 8, "LD", unit=LD, role="move-in"),
            Box(20, 0, 8, 8, "ALU", unit=ALU, role="compute"),
            Box(30, 0, 8, 8, "ST", unit=ST, role="move-out"),
            Box(10, 10, 28, 5, "SPAD", memory=SPAD),
            Box(0, 17, 38, 5, "DRAM", memory=DRAM),
        ),
        limits=("nothing of this machine exists in hardware",),
    )
