"""The words of the state and of the program."""

from npuviz.sim.parts.record_kernels import Record, Rows, Words

FAR = 1 << 60
RING = 8
"""Words of a queue; a spec uses as many as it has entries."""
UNITS = 3
"""Units with a queue: LD, ALU, ST are units 1, 2, 3 and rows 0, 1, 2."""
KIND_WAIT = 4

# --- state ---------------------------------------------------------------------------------------

CHIP = Record(
    "chip",
    cycle="cycles completed",
    status="1: the program has ended",
    next="instruction that SEQ hands out next",
    wake="cycle at which SEQ tries, FAR: when a queue has room",
    log_count="instructions that have ended",
    nodes="word of node 0",
    done="word of the flag of instruction 0: 1 once it has ended",
    log="word of log entry 0",
    units=Rows(
        UNIT := Record(
            "unit",
            running="instruction under way, -1",
            start="when it began",
            until="when it ends",
            since="since when the head of the queue waits, -1",
            head="instructions taken from the queue",
            tail="instructions put into it",
            peak="most entries",
            busy="cycles of ended instructions",
            ring=Words(RING, "the queue: entry n is in word n % RING"),
        ),
        UNITS,
        "LD, ALU, ST",
    ),
)
NODE = Record("node", started="1: its first instruction has started", left="instructions that have not ended")
LOG = Record("log entry", instruction="that ended", cycle="when")

# --- program, which no kernel changes ------------------------------------------------------------

ACCESS = Record("access", memory="-1: none", is_write="1: written", low="first byte", high="byte behind")
INSTRUCTION = Record(
    "instruction",
    unit="row of its unit",
    kind="interval kind",
    cycles="that it takes",
    node="graph node",
    num_after="instructions it waits for",
    after=Words(2, "their numbers"),
    accesses=Rows(ACCESS, 3, "what it touches"),
)
PROGRAM = Record(
    "program", count="instructions", queue="entries of a queue", instructions=Rows(INSTRUCTION, 0)
)
