"""What the toy machine consists of, as data."""

from npuviz.sim.description import Box, ClockDomain, Link, MachineDescription, Memory, Queue, Unit
from npuviz.sim.probe import Probe
from npuviz.trace.schema import Kind, Track
from tests.toy.program import ALU, DRAM, LD, NUM_BANKS, SPAD, ST, TENSORS, ToySpec

K_LOAD, K_MUL, K_ADD, K_STORE, K_DEPENDENCY, K_FULL, K_EMPTY, K_BANK = range(8)
T_ALU_QUEUE, T_ST_QUEUE, T_USED = 3, 4, 5

KINDS = (
    Kind(K_LOAD, "LOAD", "move-in", "copies a block from DRAM to the scratchpad"),
    Kind(K_MUL, "MUL", "compute", "multiplies two blocks"),
    Kind(K_ADD, "ADD", "compute", "adds two blocks"),
    Kind(K_STORE, "STORE", "move-out", "copies a block from the scratchpad to DRAM"),
    Kind(K_DEPENDENCY, "operand not stored", "wait-dependency", "an earlier operator writes the operand"),
    Kind(K_FULL, "queue full", "wait-queue", "the next queue has no room"),
    Kind(K_EMPTY, "queue empty", "wait-empty", "nothing to do"),
    Kind(K_BANK, "bank busy", "wait-conflict", "the bank still holds an earlier tile"),
)


def describe(spec: ToySpec, target: str) -> MachineDescription:
    """The description of a toy machine."""
    dram_bytes = len(TENSORS) * spec.tensor_bytes
    return MachineDescription(
        target=target,
        title="Toy",
        clocks=(ClockDomain("core", 1e9),),
        units=(
            Unit(LD, "Core[0].LD", "Core[0]", "loads blocks"),
            Unit(ALU, "Core[0].ALU", "Core[0]", "adds and multiplies blocks", bool(spec.estimated)),
            Unit(ST, "Core[0].ST", "Core[0]", "stores blocks"),
        ),
        memories=(
            Memory(DRAM, "DRAM", "dram", dram_bytes),
            Memory(SPAD, "Core[0].SPAD", "scratchpad", NUM_BANKS * spec.bank_bytes, NUM_BANKS),
        ),
        queues=(
            Queue(0, "Core[0].ALU", ALU, spec.queue, "Core[0].ALU.occupancy", "tiles ready to compute"),
            Queue(1, "Core[0].ST", ST, spec.queue, "Core[0].ST.occupancy", "tiles ready to store"),
        ),
        links=(Link(LD, ALU, "tiles"), Link(ALU, ST, "results")),
        tracks=(
            Track(LD, "Core[0].LD", "interval", LD),
            Track(ALU, "Core[0].ALU", "interval", ALU),
            Track(ST, "Core[0].ST", "interval", ST),
            Track(T_ALU_QUEUE, "Core[0].ALU.occupancy", "counter", ALU, "entries", spec.queue),
            Track(T_ST_QUEUE, "Core[0].ST.occupancy", "counter", ST, "entries", spec.queue),
            Track(T_USED, "Core[0].SPAD.used", "counter", -1, "bytes", NUM_BANKS * spec.bank_bytes),
        ),
        kinds=KINDS,
        floorplan=(
            Box(0, 0, 30, 10, "DRAM", memory=DRAM, role="move-in"),
            Box(0, 12, 8, 8, "LD", unit=LD, role="move-in"),
            Box(10, 12, 10, 8, "ALU", unit=ALU, role="compute"),
            Box(22, 12, 8, 8, "ST", unit=ST, role="move-out"),
            Box(0, 22, 30, 4, "SPAD", memory=SPAD),
        ),
        features={"queues": {}, "semaphores": {}, "hazards": {}, "scratchpad": {"banks": NUM_BANKS}},
        limits=("nothing of this machine exists in hardware",),
    )


def probes(spec: ToySpec) -> tuple[Probe, ...]:
    """The probes of a toy machine."""
    bank = (spec.bank_bytes // 4,)
    return (
        Probe("Core[0].ALU.occupancy", "tiles ready to compute", measure="entries", group="queues"),
        Probe("Core[0].ST.occupancy", "tiles ready to store", measure="entries", group="queues"),
        Probe("Core[0].LD.latency", "cycles before data arrive", measure="cycles", writable=True),
        Probe("Core[0].busy", "busy cycles by unit", (3,), measure="cycles"),
        Probe("Core[0].SPAD.used", "bytes in use", measure="bytes"),
        *(
            Probe(f"Core[0].SPAD[{i}]", f"contents of bank {i}", bank, "float32", writable=True)
            for i in range(NUM_BANKS)
        ),
    )
