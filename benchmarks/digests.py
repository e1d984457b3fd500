"""Compares digests of a fixed set of programs on every target, which a pure refactoring must not change.

    python -m benchmarks.digests              compares with benchmarks/digests.json
    python -m benchmarks.digests --write      writes that file

For each program: digests of program and state, the last cycle, hashes of all recorded events and of the
tensors. `npuviz bench digests` prints how many are equal.
"""

import hashlib
import json
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.row import Row
from npuviz.base.progress import NoProgress
from npuviz.sim.events import EventBuffer
from npuviz.sim.machine import Machine
from npuviz.sim.stop import NO_STOPS, StopKind
from npuviz.sim.target import LoadRequest
from npuviz.workbench.choosing import choose_target

KEPT = Path(__file__).with_suffix(".json")
SAMPLES = Path(__file__).parents[1] / "sample_models"
ROWS = 1 << 16
LOOKS = 7
"""Cycles, spread over a run, at which the state is hashed."""
FOREVER = 1 << 50


@dataclass(frozen=True)
class Case:
    """One program and how to load it. `path` may be a function that writes the file to an empty folder."""

    name: str
    target: str
    path: Path | Callable[[Path], Path]
    preset: str = ""
    config: Path | None = None
    settings: dict[str, str] = field(default_factory=dict[str, str])

    def machine(self, folder: Path) -> Machine:
        """Return the machine at its first cycle."""
        path = self.path if isinstance(self.path, Path) else self.path(folder)
        target = choose_target(path, self.target)
        request = LoadRequest(path, self.preset, self.config, self.settings)
        return target.build(*target.load(request, NoProgress()))


def _light(name: str) -> Path:
    import onnx.backend.test as suite

    return Path(str(suite.__file__)).parent / "data" / "light" / f"light_{name}.onnx"


def _compiled(name: str, suffix: str, target: str) -> Callable[[Path], Path]:
    """Return a function that compiles a sample to a file of the target's own format."""

    def make(folder: Path) -> Path:
        from npuviz.workbench.headless.compiling import compile_file
        from npuviz.workbench.opening import OpenOptions

        out = folder / f"{Path(name).stem}{suffix}"
        compile_file(SAMPLES / name, out, OpenOptions(target=target))
        return out

    return make


def cases() -> list[Case]:
    """Return all programs. Add new ones at the end."""
    small = SAMPLES / "systolic_2x16x16.json"
    cnn, int8, transformer = (
        SAMPLES / f"{name}.onnx" for name in ("tiny_cnn", "tiny_cnn_int8", "tiny_transformer")
    )
    commands = {"dram_type": "ramulator2", "dram_device": "HBM2"}
    mesh = {"dram_type": "ramulator2", "dram_device": "DDR4", "network": "mesh", "icnt_type": "booksim2"}
    return [
        Case("systolic cnn", "systolic", cnn, config=small),
        Case("systolic transformer", "systolic", transformer, config=small),
        Case("systolic int8", "systolic", int8),
        Case("systolic cnn, HBM2", "systolic", cnn, config=small, settings=commands),
        Case("systolic cnn, DDR4, mesh", "systolic", cnn, config=small, settings=mesh),
        Case("systolic squeezenet", "systolic", _light("squeezenet")),
        Case("systolic resnet50, parity", "systolic", _light("resnet50"), "tpuv4", None, {"mode": "parity"}),
        Case("neuroncore cnn", "neuroncore", cnn),
        Case("neuroncore int8", "neuroncore", int8),
        Case(
            "neuroncore transformer, bf16",
            "neuroncore",
            transformer,
            "trn1",
            settings={"dtype": "bf16"},
        ),
        Case("neuroncore squeezenet", "neuroncore", _light("squeezenet")),
        Case("neuroncore NEFF", "neuroncore", _compiled("tiny_cnn.onnx", ".neff", "neuroncore")),
        Case("rk3588 int8", "rk3588", int8),
        Case("rk3588 cnn, three cores", "rk3588", cnn, settings={"cores": "3"}),
        Case("rk3588 transformer", "rk3588", transformer),
        Case("rk3588 squeezenet", "rk3588", _light("squeezenet")),
        Case("rk3588 commands", "rk3588", _compiled("tiny_cnn.onnx", ".regcmd", "rk3588")),
        Case("wavelet heat", "wavelet", SAMPLES / "csl" / "heat"),
        Case("wavelet row sum", "wavelet", SAMPLES / "csl" / "row_sum"),
    ]


def facts_of(case: Case) -> dict[str, Any]:
    """Return the facts about one program that must not change."""
    with tempfile.TemporaryDirectory() as folder:
        machine = case.machine(Path(folder))
        again = case.machine(Path(folder))
    recorded = hashlib.sha256()
    buffer = EventBuffer(max(ROWS, machine.event_rows_per_cycle))
    num_events = 0
    while True:
        stop = machine.advance(FOREVER, NO_STOPS, buffer)
        rows = buffer.take()
        num_events += len(rows)
        recorded.update(np.ascontiguousarray(rows).tobytes())
        if stop.kind is not StopKind.EVENTS_FULL:
            break
    states: list[str] = []
    for cycle in np.linspace(0, machine.cycle, LOOKS).astype(int).tolist():
        again.advance(cycle, NO_STOPS, None)
        states.append(again.digest())
    return {
        "program": machine.program.digest(),
        "stop": stop.kind.value,
        "cycles": machine.cycle,
        "state": machine.digest(),
        "states": hashlib.sha256(" ".join(states).encode()).hexdigest(),
        "events": num_events,
        "recorded": recorded.hexdigest(),
        "outputs": _values(machine),
        "summary": hashlib.sha256(repr(machine.summary()).encode()).hexdigest(),
    }


def _values(machine: Machine) -> str:
    """Return a hash of all tensors that the machine holds."""
    graph = machine.program.graph
    hashed = hashlib.sha256()
    for index in range(len(graph.tensors)):
        values = machine.tensor(index)
        hashed.update(b"-" if values is None else np.ascontiguousarray(values).tobytes())
    return hashed.hexdigest()


def differences() -> dict[str, list[str]]:
    """Return case -> keys of the facts that differ from the stored ones."""
    kept = json.loads(KEPT.read_text(encoding="utf-8"))
    found: dict[str, list[str]] = {}
    for case in cases():
        now = facts_of(case)
        found[case.name] = [key for key in now if now[key] != kept.get(case.name, {}).get(key)]
    return found


def run() -> list[Row]:
    """Count the programs that are equal in all facts."""
    found = differences()
    wrong = [name for name, keys in found.items() if keys]
    title = "programs equal to the bit" + (f", but not {', '.join(wrong)}" if wrong else "")
    return [Row(title, len(found) - len(wrong), "programs", f"{len(found)}")]


def main() -> int:
    """Write or compare; exit code 1 if anything differs."""
    if "--write" in sys.argv:
        kept = {case.name: facts_of(case) for case in cases()}
        KEPT.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
        print(f"{len(kept)} programs written to {KEPT}")
        return 0
    found = differences()
    for name, keys in found.items():
        print(f"{name}: {'equal' if not keys else 'differs in ' + ', '.join(keys)}")
    return 1 if any(found.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
