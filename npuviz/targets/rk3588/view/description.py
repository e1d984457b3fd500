"""Describe an RK3588 NPU for people: units, memories, queues, tracks, floorplan, probes."""

from npuviz.sim.description import Box, ClockDomain, Link, MachineDescription, Memory, Queue, Unit
from npuviz.targets.rk3588.kernels import records as sk
from npuviz.targets.rk3588.machine.state_words import QUEUES_PER_CORE
from npuviz.targets.rk3588.spec import RknnSpec
from npuviz.targets.rk3588.tables import Tables
from npuviz.trace.schema import Kind, Role, Track

UNITS = ("PC", "CNA", "CORE", "DPU", "PPU")
UNIT_DOCS = (
    "reads register commands, starts tasks",
    "fetches features and weights into CBUF",
    "multiplies and accumulates, stripe by stripe",
    "bias, scale, activation, conversion; writes results",
    "pools",
)
PC, CNA, CORE, DPU, PPU = range(5)

ADDRESS_BYTES = 1 << 32
"""Addresses in registers have 32 bits. Ref: JAS, HAPPY."""

NO_UNIT = -1
"""Unit of tracks that frame or mark what the tracks of units show."""

_TRACKS: tuple[tuple[int, str, int, str], ...] = (
    (sk.TRACK_TASK, "tasks", PC, "register commands, then the task itself"),
    (sk.TRACK_FEATURE, "features", CNA, "feature data on its way into CBUF"),
    (sk.TRACK_WEIGHT, "weights", CNA, "weights on their way into CBUF"),
    (sk.TRACK_CORE, "groups", NO_UNIT, "kernel groups: all output positions with one set of kernels"),
    (sk.TRACK_STRIPES, "CORE", CORE, "stripes of up to 32 output positions, and why CORE waits"),
    (sk.TRACK_DPU, "DPU", DPU, "stripes through the DPU"),
    (sk.TRACK_PPU, "PPU", PPU, "pooled stripes"),
    (sk.TRACK_OPERAND, "operands", DPU, "bias and second operands from memory"),
    (sk.TRACK_WRITE, "write", DPU, "results on their way to memory"),
    (sk.TRACK_INTERRUPT, "interrupts", NO_UNIT, "a task is done: DPU bits 8, 9 or PPU bits 10, 11"),
)
_KINDS: tuple[tuple[int, str, Role, str], ...] = (
    (sk.KIND_TASK_CONV, "convolution", "compute", "a task: direct convolution"),
    (sk.KIND_TASK_DEPTHWISE, "depthwise", "compute", "a task: depthwise convolution"),
    (sk.KIND_TASK_ELEMENTWISE, "elementwise", "compute", "a task of the DPU alone"),
    (sk.KIND_TASK_POOLING, "pooling", "compute", "a task of the PPU alone"),
    (sk.KIND_REGISTERS, "registers", "control", "register commands are read, the task is started"),
    (sk.KIND_GROUP, "kernel group", "compute", "one set of kernels over all output positions"),
    (sk.KIND_STRIPE, "stripe", "compute", "output positions with fixed weights, over all taps and channels"),
    (sk.KIND_DPU, "output", "compute", "a stripe through the DPU"),
    (sk.KIND_PPU, "pool", "compute", "a stripe through the PPU"),
    (sk.KIND_FEATURE, "features", "move-in", "feature data is fetched"),
    (sk.KIND_WEIGHT, "weights", "move-in", "weights are fetched"),
    (sk.KIND_OPERAND, "operands", "move-in", "bias or a second operand is fetched"),
    (sk.KIND_WRITE, "write", "move-out", "results are written"),
    (sk.KIND_HOST, "host", "host", "an operator or a conversion on the CPU; its duration is an assumption"),
    (sk.KIND_DRIVER, "driver", "control", "the driver starts a job"),
    (sk.KIND_BUS, "busy", "move-in", "DDR moves data"),
    (sk.KIND_WAIT_DATA, "waits for features", "wait-bandwidth", "feature rows are not in CBUF yet"),
    (sk.KIND_WAIT_WEIGHTS, "waits for weights", "wait-bandwidth", "weights are not in CBUF yet"),
    (sk.KIND_WAIT_OUTPUT, "waits for output", "wait-queue", "the DPU has not drained the accumulator"),
    (sk.KIND_INTERRUPT, "interrupt", "control", "the block that ends the task is done"),
    (sk.KIND_WAIT_BUS, "waits for the bus", "wait-bandwidth", "DDR serves other streams"),
)

_FRAMES = (sk.KIND_TASK_CONV, sk.KIND_TASK_DEPTHWISE, sk.KIND_TASK_ELEMENTWISE, sk.KIND_TASK_POOLING)


def unit_of(core: int, unit: int) -> int:
    """Return the unit id of a block of a core."""
    return core * len(UNITS) + unit


def host_unit(spec: RknnSpec) -> int:
    """Return the unit id of the CPU; the driver and DDR follow."""
    return spec.cores * len(UNITS)


def describe(spec: RknnSpec, tables: Tables) -> MachineDescription:
    """Return the description of a machine with one program."""
    cores = f"{spec.cores} cores" if spec.cores > 1 else "one core"
    return MachineDescription(
        target="rk3588",
        title=f"RK3588 NPU, {cores} at {spec.npu_hz // 1_000_000} MHz",
        clocks=(ClockDomain("NPU", float(spec.npu_hz)), ClockDomain("DDR", float(spec.ddr_hz))),
        units=_units(spec),
        memories=_memories(spec),
        queues=_queues(spec),
        links=_links(spec),
        tracks=_tracks(spec),
        kinds=tuple(Kind(*row, frames=row[0] in _FRAMES) for row in _KINDS),
        floorplan=_floorplan(spec),
        features={
            "register commands": {"blocks": 8},
            "task list": {"tasks": len(tables.tasks), "jobs": tables.num_jobs, "plan": tables.plan},
            "choices": {"cores": ["1", "2", "3"]},
            "CBUF": {"banks": spec.cbuf_banks, "bank_bytes": spec.cbuf_bank_bytes},
        },
        limits=(
            "Times inside a task follow a model fitted to published layer times; no cycle trace of the chip "
            "is public.",
            "DDR is one bus with a fixed rate; no banks, no refresh.",
            "Results appear in memory when a task ends.",
            "Weight compression and zero skipping are not modelled.",
        ),
    )


def _units(spec: RknnSpec) -> tuple[Unit, ...]:
    found = [
        Unit(unit_of(core, unit), f"Core[{core}].{name}", f"Core[{core}]", UNIT_DOCS[unit])
        for core in range(spec.cores)
        for unit, name in enumerate(UNITS)
    ]
    host = host_unit(spec)
    found.append(
        Unit(host, "Host", "", "the CPU: what the NPU cannot do, and conversions of layout", estimated=True)
    )
    found.append(Unit(host + 1, "Driver", "", "starts jobs", estimated=True))
    found.append(Unit(host + 2, "DDR", "", "memory, shared by all cores"))
    return tuple(found)


def _memories(spec: RknnSpec) -> tuple[Memory, ...]:
    found = [
        Memory(
            core, f"Core[{core}].CBUF", "scratchpad", spec.cbuf_bytes, spec.cbuf_banks, "int8",
            "features in the first banks, weights in the others",
        )
        for core in range(spec.cores)
    ]  # fmt: skip
    found.append(
        Memory(spec.cores, "DDR", "dram", ADDRESS_BYTES, 1, "int8", "the 4 GiB that addresses reach")
    )
    return tuple(found)


def _queues(spec: RknnSpec) -> tuple[Queue, ...]:
    found: list[Queue] = []
    for core in range(spec.cores):
        rows = (
            ("tasks", PC, 0, "tasks of the running job still to start"),
            ("accumulator", CORE, sk.STRIPE_RING, "stripes that wait for the DPU"),
        )
        for number, (name, unit, capacity, doc) in enumerate(rows):
            full = f"Core[{core}].{name}"
            place = core * QUEUES_PER_CORE + number
            found.append(Queue(place, full, unit_of(core, unit), capacity, f"{full}.occupancy", doc))
    return tuple(found)


def _links(spec: RknnSpec) -> tuple[Link, ...]:
    ddr = host_unit(spec) + 2
    found: list[Link] = []
    for core in range(spec.cores):
        cna, mac, dpu, ppu = (unit_of(core, unit) for unit in (CNA, CORE, DPU, PPU))
        found += [Link(ddr, cna, "features, weights"), Link(cna, mac), Link(mac, dpu), Link(dpu, ppu)]
        found += [Link(dpu, ddr, "results"), Link(ppu, ddr, "results")]
    return tuple(found)


def _tracks(spec: RknnSpec) -> tuple[Track, ...]:
    found = [
        Track(
            core * sk.TRACKS_PER_CORE + number,
            f"Core[{core}].{name}",
            "interval",
            NO_UNIT if unit == NO_UNIT else unit_of(core, unit),
            doc=doc,
        )
        for core in range(spec.cores)
        for number, name, unit, doc in _TRACKS
    ]
    host, first = host_unit(spec), spec.cores * sk.TRACKS_PER_CORE
    found.append(
        Track(first, "Host", "interval", host, doc="operators and conversions on the CPU (estimated)")
    )
    found.append(Track(first + 1, "Driver", "interval", host + 1, doc="starts of jobs (estimated)"))
    found.append(Track(first + 2, "DDR", "interval", host + 2, doc="bus busy"))
    return tuple(found)


def _floorplan(spec: RknnSpec) -> tuple[Box, ...]:
    width, height, gap = 30.0, 18.0, 3.0
    found: list[Box] = []
    for core in range(spec.cores):
        x = core * (width + gap)
        ids = [unit_of(core, unit) for unit in range(len(UNITS))]
        found += [
            Box(x, 0, width, height, f"Core[{core}]"),
            Box(x + 1, 3, 5, 14, "PC", unit=ids[PC], role="control"),
            Box(x + 7, 3, 6, 6, "CNA", unit=ids[CNA], role="move-in"),
            Box(x + 7, 10, 6, 7, "CBUF", memory=core),
            Box(x + 14, 3, 8, 14, "CORE", unit=ids[CORE], role="compute"),
            Box(x + 23, 3, 6, 6, "DPU", unit=ids[DPU], role="compute"),
            Box(x + 23, 10, 6, 7, "PPU", unit=ids[PPU], role="compute"),
        ]
    total = spec.cores * (width + gap) - gap
    host = host_unit(spec)
    found.append(Box(0, height + gap, total, 5, "DDR", unit=host + 2, memory=spec.cores, role="move-in"))
    found.append(Box(total + gap, 0, 8, 8, "Host", unit=host, role="host"))
    found.append(Box(total + gap, 10, 8, 8, "Driver", unit=host + 1, role="control"))
    return tuple(found)


STREAM_NAMES = ("features", "weights", "operands", "write", "commands")
