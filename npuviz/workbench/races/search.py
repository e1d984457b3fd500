"""`npuviz races`: distributes seeds over processes, and reports the findings as text and data."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from npuviz.base.errors import UsageError
from npuviz.base.progress import Progress
from npuviz.program.program import Program
from npuviz.program.source import line_of
from npuviz.sim.latencies import LATENCY_SEED, MOST_SEED
from npuviz.sim.machine import Machine
from npuviz.workbench.opening import OpenOptions
from npuviz.workbench.processes import in_processes
from npuviz.workbench.races.recorded import RecordedRacer, load_racer
from npuviz.workbench.races.runs import Access, Race, Racer, SeedResult

MOST_SEEDS = 100_000
_racer: Racer | RecordedRacer | None = None
"""In a worker process: the racer that it runs."""


def find_races(path: Path, options: OpenOptions, seeds: int, jobs: int, progress: Progress) -> dict[str, Any]:
    """Run seeds 1 to `seeds` against the nominal run, and return all that `npuviz races --json` prints.

    jobs  number of processes; 1: this process only
    Raises NpuvizError for what cannot be opened, or whose latencies cannot be varied.
    """
    if not 1 <= seeds <= MOST_SEEDS:
        raise UsageError(f"seeds {seeds}: expected 1 to {MOST_SEEDS}")
    if jobs < 1:
        raise UsageError(f"jobs {jobs}: expected 1 or more")
    progress.report(-1.0, "reading and compiling the model")
    racer = load_racer(path, options)
    progress.report(-1.0, "the nominal run")
    numbers = range(1, min(seeds, MOST_SEED) + 1)
    count = min(jobs, len(numbers))
    results: list[SeedResult] = []
    begin = (_begin, (path, options))
    source = map(racer.at, numbers) if count == 1 else in_processes(_one, numbers, count, begin)
    for number, result in enumerate(source):
        results.append(result)
        progress.report((number + 1) / len(numbers), f"seed {result.seed}")
    return races_report(path, racer, sorted(results, key=lambda each: each.seed))


def _begin(path: Path, options: OpenOptions) -> None:
    """Read and compile the program once in a worker process."""
    global _racer
    _racer = load_racer(path, options)


def _one(seed: int) -> SeedResult:
    assert _racer is not None
    return _racer.at(seed)


# What was found ---------------------------------------------------------------------------------


def races_report(path: Path, racer: Racer | RecordedRacer, results: Sequence[SeedResult]) -> dict[str, Any]:
    """Summarize the results of all seeds as plain data for JSON."""
    cycles = [each.cycles for each in results]
    return {
        "file": str(path),
        "target": racer.target.id,
        "seeds": len(results),
        "cycles": {"nominal": racer.nominal.stop.cycle, "least": min(cycles), "most": max(cycles)},
        "varied": [
            {"what": each.what, "count": each.count, "low": each.low, "high": each.high, "text": each.text,
             "source": "assumed"}
            for each in racer.target.varied(racer.spec, racer.program)
        ],
        "not_varied": list(racer.target.not_varied(racer.spec, racer.program)),
        "not_compared": list(racer.left_out),
        "reads": racer.num_reads,
        "other_order": {
            "seeds": sum(each.changed > 0 for each in results),
            "reads": sum(each.changed for each in results),
            "equal_values": sum(each.equal for each in results),
            "unknown_values": sum(each.unknown for each in results),
            "after_the_limit": sum(each.left for each in results),
        },
        "races": _races(path, racer, results),
        "stops": [
            {"seed": each.seed, "cycle": each.cycles, "text": each.stop,
             "replay": _replay(path, racer, each.seed)}
            for each in results
            if each.stop
        ],
    }  # fmt: skip


def _races(path: Path, racer: Racer | RecordedRacer, results: Sequence[SeedResult]) -> list[dict[str, Any]]:
    """Return a row for each instruction that reads another value, with the first seed that shows it."""
    seeds: dict[int, list[int]] = {}
    first: dict[int, tuple[int, Race]] = {}
    for each in results:
        if each.race is not None:
            reader = each.race.other.instruction
            first.setdefault(reader, (each.seed, each.race))
            seeds.setdefault(reader, []).append(each.seed)
    return [
        _race_row(path, racer, seed, race) | {"seeds": seeds[reader]}
        for reader, (seed, race) in first.items()
    ]


def _race_row(path: Path, racer: Racer | RecordedRacer, seed: int, race: Race) -> dict[str, Any]:
    machine = racer.nominal.machine
    memories = machine.description.memories
    known = 0 <= race.memory < len(memories)
    comes = race.come_at if race.come_at is not None else racer.write_cycles(seed, race.wrote_nominal)
    return {
        "seed": seed,
        "reader": _access_row(machine, racer.program, race.other),
        "memory": race.place or (memories[race.memory].name if known else ""),
        "address": race.address,
        "size_bytes": race.size_bytes,
        "nominal": {
            "cycle": race.nominal.cycle,
            "value": race.values[0] or None,
            "written_by": [_access_row(machine, racer.program, each) for each in race.wrote_nominal],
            "replay": _replay(path, racer, 0),
        },
        "other": {
            "cycle": race.other.cycle,
            "value": race.values[1] or None,
            "written_by": [_access_row(machine, racer.program, each) for each in race.wrote_other],
            "nominal_writers_come_at": list(comes),
            "replay": _replay(path, racer, seed),
        },
    }


def _replay(path: Path, racer: Racer | RecordedRacer, seed: int) -> str:
    return f"npuviz debug {path} --target {racer.target.id} --set {LATENCY_SEED}={seed}"


def _access_row(machine: Machine, program: Program, access: Access) -> dict[str, Any]:
    listing = program.listing
    row: dict[str, Any] = {"instruction": access.instruction, "cycle": access.cycle}
    if not 0 <= access.instruction < len(listing):
        return row | {"unit": access.unit, "text": access.text, "operator": "", "line": ""}
    found = listing.describe(access.instruction)
    units = machine.description.units
    nodes = program.graph.nodes
    return row | {
        "unit": access.unit or (units[found.unit].name if 0 <= found.unit < len(units) else ""),
        "text": found.text,
        "operator": nodes[found.node].name if 0 <= found.node < len(nodes) else "",
        "line": line_of(listing, access.instruction),
    }


def races_text(found: dict[str, Any]) -> str:
    """Write the findings as lines for a terminal."""
    cycles, order = found["cycles"], found["other_order"]
    lines = [
        f"{found['seeds']} seeds, {cycles['least']} to {cycles['most']} cycles; nominal {cycles['nominal']}.",
        "Varied (bounds assumed):",
        *(f"  {each['count']} {each['text']}" for each in found["varied"]),
        *(f"Not varied: {each}" for each in found["not_varied"]),
        *(f"Not compared: {each}" for each in found["not_compared"]),
    ]
    if order["seeds"]:
        lines.append(
            f"In {order['seeds']} seeds, {order['reads']} reads came in another order with writes: "
            f"{order['equal_values']} with equal values, {order['unknown_values']} with values not known, "
            f"{order['after_the_limit']} not compared any more."
        )
    elif order["after_the_limit"]:
        lines.append(
            f"Not compared: {order['after_the_limit']} results that differ; those looked at depend on timers."
        )
    for race in found["races"]:
        lines += _race_lines(race, found["seeds"])
    for stop in found["stops"][:5]:
        lines.append(f"Seed {stop['seed']}: ends otherwise, at cycle {stop['cycle']}: {stop['text']}")
    if not found["races"] and not found["stops"]:
        lines.append("No read sees another value than in the nominal run.")
    return "\n".join(lines)


def _race_lines(race: dict[str, Any], seeds: int) -> list[str]:
    reader, nominal, other = race["reader"], race["nominal"], race["other"]
    place = f"{race['memory']} {race['address']:#x}, {race['size_bytes']} bytes"
    if nominal["value"]:
        place = f"{race['memory']}: {nominal['value']}, then {other['value']}"
    lines = [
        f"Race: {_named(reader)} reads another value ({place}); {len(race['seeds'])} of {seeds} seeds",
        f"  nominal run, cycle {nominal['cycle']}: written last by {_list(nominal['written_by'])}",
        f"  seed {race['seed']}, cycle {other['cycle']}: written last by {_list(other['written_by'])}",
    ]
    for writer, cycle in zip(nominal["written_by"], other["nominal_writers_come_at"], strict=True):
        when = f"writes at cycle {cycle}, {'after' if cycle >= other['cycle'] else 'before'} the read"
        lines.append(f"    {_short(writer)} {when if cycle >= 0 else 'never writes'}")
    lines += [
        f"  replay: {nominal['replay']}   then: goto {max(nominal['cycle'] - 1, 0)}",
        f"          {other['replay']}   then: goto {max(other['cycle'] - 1, 0)}",
    ]
    return lines


def _named(access: dict[str, Any]) -> str:
    where = (
        f" ({access['line']})" if access["line"] else f" ({access['operator']})" if access["operator"] else ""
    )
    return f"{_short(access)}: {access['text']}{where}"


def _short(access: dict[str, Any]) -> str:
    return f"instruction {access['instruction']} of {access['unit'] or 'no unit'}"


def _list(found: list[dict[str, Any]]) -> str:
    if not found:
        return "nobody, or by the same writers in another order"
    more = f" and {len(found) - 3} more" if len(found) > 3 else ""
    return ", ".join(f"{_short(each)} (cycle {each['cycle']})" for each in found[:3]) + more


def has_found(found: dict[str, Any]) -> bool:
    """Return whether some seed shows a race, or ends otherwise than the nominal run."""
    return bool(found["races"] or found["stops"])
