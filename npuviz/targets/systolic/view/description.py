"""Describes a systolic machine: units, memories, queues, tracks, floorplan, probes."""

from npuviz.sim.description import ClockDomain, Link, MachineDescription, Memory, Queue, Unit
from npuviz.sim.dram.view import BUFFERS
from npuviz.targets.systolic.isa import MNEMONICS, UNIT_KINDS
from npuviz.targets.systolic.kernels import records as sk
from npuviz.targets.systolic.machine.scheduler_words import operator_lanes
from npuviz.targets.systolic.spec import SystolicSpec
from npuviz.targets.systolic.view.floorplan import make_floorplan
from npuviz.trace.schema import Kind, Role, Track

LD, EX, VEC, ST = range(4)
UNITS_PER_CORE = 4

_UNIT_DOCS = {
    "LD": "moves tiles from DRAM into scratchpad and accumulator (MOVIN)",
    "EX": "the systolic array: weight-stationary matrix products (GEMM)",
    "VEC": "the vector unit: element-wise work, reductions, normalisation",
    "ST": "moves results from the accumulator to DRAM (MOVOUT)",
}
_ROLES: dict[str, Role] = {
    "LD": "move-in",
    "EX": "compute",
    "VEC": "compute",
    "ST": "move-out",
    "Host": "host",
}
_KIND_DOCS = {
    "MOVIN": "requests of a load enter the network",
    "MOVOUT": "requests of a store enter the network",
    "GEMM_PRELOAD": "rows stream through the array after new weights were put in place",
    "GEMM": "rows stream through the array with the weights that are in place",
    "HOST": "an operator that the cores cannot run; its duration is an assumption",
}


def host_unit(spec: SystolicSpec) -> int:
    """Return the unit id of the Host."""
    return spec.num_cores * UNITS_PER_CORE


def dram_memory(spec: SystolicSpec) -> int:
    """Return the memory id of the DRAM."""
    return spec.num_cores * sk.MEMORIES_PER_CORE


def unit_ids(spec: SystolicSpec) -> dict[tuple[int, str], int]:
    """Return unit ids by (core, kind), as SystolicListing takes them."""
    found = {
        (core, kind): core * UNITS_PER_CORE + index
        for core in range(spec.num_cores)
        for index, kind in enumerate(UNIT_KINDS[:UNITS_PER_CORE])
    }
    found[(-1, "Host")] = host_unit(spec)
    return found


def memory_ids(spec: SystolicSpec) -> dict[tuple[int, str], int]:
    """Return memory ids by (core, name), as SystolicListing takes them."""
    found: dict[tuple[int, str], int] = {}
    for core in range(spec.num_cores):
        found[(core, "SPAD")] = core * sk.MEMORIES_PER_CORE + sk.MEMORY_SPAD
        found[(core, "ACC")] = core * sk.MEMORIES_PER_CORE + sk.MEMORY_ACC
    found[(-1, "DRAM")] = dram_memory(spec)
    return found


def describe(spec: SystolicSpec, dram_bytes: int) -> MachineDescription:
    """Describe a machine whose programs use `dram_bytes` of DRAM at most."""
    cores = spec.cores
    clocks = (
        ClockDomain("core", 1e12 / spec.core_period_ps),
        ClockDomain("DRAM", 1e12 / spec.dram_period_ps),
        ClockDomain("NoC", 1e12 / spec.noc_period_ps),
    )
    shape = {"rows": max(c.core_height for c in cores), "columns": max(c.core_width for c in cores)}
    return MachineDescription(
        target="systolic",
        title=f"{spec.num_cores} x {cores[0].core_width}x{cores[0].core_height} systolic ({spec.mode} mode)",
        clocks=clocks,
        units=_units(spec),
        memories=_memories(spec, dram_bytes),
        queues=_queues(spec),
        links=_links(spec),
        tracks=_tracks(spec),
        kinds=_kinds(),
        floorplan=make_floorplan(spec),
        features={"systolic grid": shape, "tiles": {"resident per core": 2}, "mode": spec.mode},
        limits=_limits(spec),
    )


def _units(spec: SystolicSpec) -> tuple[Unit, ...]:
    found = [
        Unit(core * UNITS_PER_CORE + index, f"Core[{core}].{kind}", f"Core[{core}]", _UNIT_DOCS[kind])
        for core in range(spec.num_cores)
        for index, kind in enumerate(UNIT_KINDS[:UNITS_PER_CORE])
    ]
    host = host_unit(spec)
    found.append(
        Unit(host, "Host", "", "runs what the cores cannot; its durations are assumptions", estimated=True)
    )
    found.append(Unit(host + 1, "NoC", "", "the network between cores and DRAM channels"))
    found += [
        Unit(host + 2 + channel, f"DRAM[{channel}]", "DRAM", "one DRAM channel")
        for channel in range(spec.config.dram_channels)
    ]
    return tuple(found)


def _memories(spec: SystolicSpec, dram_bytes: int) -> tuple[Memory, ...]:
    element = {1: "int8", 2: "bfloat16", 4: "float32"}.get(spec.precision, "uint8")
    found: list[Memory] = []
    for index, core in enumerate(spec.cores):
        base = index * sk.MEMORIES_PER_CORE
        found.append(
            Memory(
                base + sk.MEMORY_SPAD, f"Core[{index}].SPAD", "scratchpad", core.spad_bytes, 2, element,
                "two halves; each resident tile owns one",
            )
        )  # fmt: skip
        found.append(
            Memory(
                base + sk.MEMORY_ACC, f"Core[{index}].ACC", "accumulator", core.acc_bytes, 2, "float32",
                "two halves of 4-byte accumulators",
            )
        )  # fmt: skip
    size = max(dram_bytes, spec.config.dram_size << 30)
    found.append(Memory(dram_memory(spec), "DRAM", "dram", size, 1, element, "shared by all cores"))
    return tuple(found)


def _queues(spec: SystolicSpec) -> tuple[Queue, ...]:
    found: list[Queue] = []
    for core in range(spec.num_cores):
        first, unit = core * sk.QUEUES_PER_CORE, core * UNITS_PER_CORE
        rows = (
            (sk.QUEUE_LD, "LD", unit + LD, 0, "loads issued and not yet taken up"),
            (sk.QUEUE_EX, "EX", unit + EX, spec.cores[core].core_height, "instructions in the array"),
            (sk.QUEUE_VEC, "VEC", unit + VEC, 1, "the instruction in the vector unit"),
            (sk.QUEUE_ST, "ST", unit + ST, 32, "stores issued and not yet taken up"),
            (
                sk.QUEUE_REQUESTS,
                "requests",
                unit + LD,
                0,
                "loads and stores whose requests are still to enter the network",
            ),
        )
        for number, name, owner, capacity, doc in rows:
            full = f"Core[{core}].{name}"
            found.append(Queue(first + number, full, owner, capacity, f"{full}.occupancy", doc))
    if spec.device is not None:
        first, unit = spec.num_cores * sk.QUEUES_PER_CORE, host_unit(spec) + 2
        room = spec.device.queue_depth + 1
        for number in range(2 * spec.config.dram_channels):
            channel, buffer = divmod(number, 2)
            full = f"DRAM[{channel}].{BUFFERS[buffer]}"
            doc = f"{BUFFERS[buffer]} that wait for their bank"
            found.append(Queue(first + number, full, unit + channel, room, f"{full}.occupancy", doc))
    return tuple(found)


def _links(spec: SystolicSpec) -> tuple[Link, ...]:
    noc = host_unit(spec) + 1
    found: list[Link] = []
    for core in range(spec.num_cores):
        unit = core * UNITS_PER_CORE
        found += [Link(noc, unit + LD, "loads"), Link(unit + ST, noc, "stores")]
        found += [Link(unit + LD, unit + EX), Link(unit + EX, unit + VEC), Link(unit + VEC, unit + ST)]
    found += [Link(noc, noc + 1 + channel) for channel in range(spec.config.dram_channels)]
    return tuple(found)


def _tracks(spec: SystolicSpec) -> tuple[Track, ...]:
    found: list[Track] = []
    for core in range(spec.num_cores):
        first, unit = core * sk.TRACKS_PER_CORE, core * UNITS_PER_CORE
        name = f"Core[{core}]"
        for kind in (sk.TRACK_LD, sk.TRACK_EX, sk.TRACK_VEC, sk.TRACK_ST):
            unit_name = UNIT_KINDS[kind]
            found.append(
                Track(first + kind, f"{name}.{unit_name}", "interval", unit + kind, doc=_UNIT_DOCS[unit_name])
            )
        sizes = spec.cores[core]
        counters = (
            (sk.TRACK_REQUESTS, "requests", unit + LD, "bursts", 0, "loads and stores waiting to be sent"),
            (sk.TRACK_SPAD, "SPAD", unit + LD, "bytes", sizes.spad_bytes, "scratchpad bytes in use"),
            (sk.TRACK_ACC, "ACC", unit + EX, "bytes", sizes.acc_bytes, "accumulator bytes in use"),
        )
        for kind, label, owner, measure, maximum, doc in counters:
            found.append(Track(first + kind, f"{name}.{label}", "counter", owner, measure, maximum, doc))
    last = spec.num_cores * sk.TRACKS_PER_CORE
    found.append(
        Track(last + sk.TRACK_OPERATORS, "Operators", "interval", doc="which operator the cores work on")
    )
    found.append(
        Track(
            last + sk.TRACK_HOST, "Host", "interval", host_unit(spec), doc="operators on the host (estimated)"
        )
    )
    found += [
        Track(
            last + sk.TRACK_HOST + lane,
            f"Operators {lane + 1}",
            "interval",
            doc="an operator that runs beside others",
        )
        for lane in range(1, operator_lanes(spec))
    ]
    return tuple(found)


def _kinds() -> tuple[Kind, ...]:
    found = [
        Kind(opcode, name, _role(opcode), _KIND_DOCS.get(name, "a vector instruction"))
        for opcode, name in MNEMONICS.items()
    ]
    found += [
        Kind(sk.KIND_LOAD_WEIGHTS, "LOAD_WEIGHTS", "control", "weights move into the array; no rows stream"),
        Kind(sk.KIND_WAIT_EMPTY, "no tile", "wait-empty", "the array has no tile to work on"),
        Kind(sk.KIND_WAIT_BANDWIDTH, "waiting for data", "wait-bandwidth", "operands are still being loaded"),
        Kind(
            sk.KIND_WAIT_DEPENDENCY,
            "waiting for issue",
            "wait-dependency",
            "operands are there; an earlier instruction or the issue order holds it back",
        ),
        Kind(sk.KIND_OPERATOR, "operator", "compute", "an operator, from its first tile to its last report"),
        Kind(sk.KIND_MEMORY, "memory", "wait-bandwidth", "data is on its way through network and DRAM"),
        Kind(sk.KIND_RESULT, "result", "wait-dependency", "a result leaves its pipeline"),
        Kind(sk.KIND_ISSUE, "issue", "wait-dependency", "its tile issues one instruction a cycle, in order"),
        Kind(sk.KIND_TILE, "tile", "wait-dependency", "an earlier tile or layer has to end first"),
        Kind(sk.KIND_REQUESTS, "requests", "wait-bandwidth", "other requests enter the network first"),
        Kind(sk.KIND_LAUNCH, "launch", "wait-empty", "nothing is to be done before the next launch"),
    ]
    return tuple(found)


def _role(opcode: int) -> Role:
    from npuviz.targets.systolic.isa import UNIT_KIND_OF

    return _ROLES[UNIT_KINDS[int(UNIT_KIND_OF[opcode])]]


def _limits(spec: SystolicSpec) -> tuple[str, ...]:
    found = [
        *_traffic_limits(spec),
        "Scratchpad and accumulator have no ports or banks.",
        "Byte contents change tile by tile: DRAM shows a tile's results once the tile is reported.",
        "Bytes written to SRAM by hand are shown there, but do not flow into results.",
    ]
    if spec.mode == "parity":
        found.append("Parity mode keeps ONNXim's cycle counts and its flaws; values are not computed.")
    return tuple(found)


def _traffic_limits(spec: SystolicSpec) -> list[str]:
    found: list[str] = []
    if spec.device is None:
        found.append(
            "DRAM is simple: a request per channel and cycle after a constant latency, no banks, no refresh."
        )
    elif not spec.is_refreshed:
        found.append("The DRAM is never refreshed.")
    if spec.flits is None:
        found.append("The network is simple: no sizes and no back-pressure.")
    return found
