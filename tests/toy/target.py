"""The toy target: takes `.toy` files, a JSON object with the sizes of ToySpec."""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from npuviz.base.errors import FormatError
from npuviz.base.progress import NoProgress, Progress
from npuviz.program.program import Program
from npuviz.sim.check_result import CheckResult
from npuviz.sim.machine import Machine
from npuviz.sim.target import LoadRequest
from tests.toy.machine import ToyMachine
from tests.toy.program import TENSORS, ToySpec, make_program, reference

LIMIT = 1_000_000


class ToyTarget:
    """One small machine."""

    id = "toy"
    title = "Toy pipeline"
    presets: Mapping[str, str] = {"small": "8 blocks", "large": "64 blocks"}
    file_kinds: Mapping[str, str] = {".toy": "sizes of a toy program"}

    def accepts(self, path: Path, head: bytes) -> bool:
        return path.suffix == ".toy" and head.lstrip()[:1] == b"{"

    def locate(self, name: str, config: Path | None) -> Path | None:
        return None

    def load(self, request: LoadRequest, progress: Progress) -> tuple[ToySpec, Program]:
        try:
            sizes = json.loads(request.path.read_bytes())
        except (OSError, ValueError) as error:
            raise FormatError(request.path, expected="a JSON object", found=str(error)) from error
        if not isinstance(sizes, dict):
            raise FormatError(request.path, expected="a JSON object", found=type(sizes).__name__)
        if request.preset == "large":
            sizes = {"blocks": 64, **sizes}
        spec = make_spec(request.path, {**sizes, **request.settings}, request.seed)
        progress.report(1.0, "loaded")
        return spec, make_program(spec, dict(request.inputs), self.id)

    def build(self, spec: Any, program: Program) -> Machine:
        return ToyMachine(spec, program)

    def check(self, machine: Machine, progress: Progress) -> CheckResult:
        failed: list[str] = []
        error = 0.0
        for tensor, expected in reference(machine.program.payload).items():
            found = machine.tensor(tensor)
            assert found is not None
            error = max(error, float(np.abs(found - expected).max()))
            if not np.array_equal(found, expected):
                failed.append(TENSORS[tensor][0])
        first = failed[0] if failed else ""
        return CheckResult(len(TENSORS), len(failed), error, error, first, "equal")

    def warm_up(self, progress: Progress) -> None:
        progress.report(1.0, "nothing to compile")


def make_spec(path: Path, sizes: Mapping[str, Any], seed: int = 0) -> ToySpec:
    """A spec from untrusted sizes. Raises FormatError."""
    known = {field.name for field in dataclasses.fields(ToySpec)}
    values: dict[str, int] = {"seed": seed}
    for name, value in sizes.items():
        if name not in known:
            raise FormatError(path, field=name, hint=f"known: {', '.join(sorted(known))}")
        try:
            number = int(value)
        except (TypeError, ValueError):
            raise FormatError(path, field=name, expected="an integer", found=repr(value)) from None
        low = {"fault_at": -1, "stuck_at": -1, "hazard_above": 0, "estimated": 0, "seed": 0}.get(name, 1)
        if not low <= number <= LIMIT:
            raise FormatError(path, field=name, expected=f"{low}..{LIMIT}", found=str(number))
        values[name] = number
    spec = ToySpec(**values)
    if spec.blocks * spec.elements > LIMIT:
        raise FormatError(path, expected=f"at most {LIMIT} elements", found=str(spec.blocks * spec.elements))
    return spec


def make_machine(spec: ToySpec | None = None) -> Machine:
    """A toy machine at cycle 0, without a file."""
    spec = spec or ToySpec()
    return TARGET.build(spec, make_program(spec, {}, TARGET.id))


def write_toy(path: Path, **sizes: int) -> Path:
    """Write a `.toy` file; returns its path."""
    path.write_text(json.dumps(sizes))
    return path


def load_toy(path: Path) -> tuple[Machine, Program]:
    """Load a `.toy` file and build its machine."""
    spec, program = TARGET.load(LoadRequest(path), NoProgress())
    return TARGET.build(spec, program), program


TARGET = ToyTarget()
