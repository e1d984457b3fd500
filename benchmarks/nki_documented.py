"""Checks for every documented function of NKI whether it runs in npuviz.

    python -m benchmarks.nki_documented            a table by module; what does not run, with the reason
    python -m benchmarks.nki_documented --all      every function

nki_documented.txt lists the functions with their parameters, of SDK 2.26 (neuronxcc.nki, generation 1) and
SDK 2.32 (nki, generation 2, with the methods of tensors). A function runs if it accepts its documented
parameters and a kernel that calls it once runs to its end. Values are not compared: the tests of nki do that.
"""

import importlib
import inspect
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from benchmarks.nki_calls import CALLS, HEADS, TAKES_ANY
from npuviz.base.progress import NoProgress
from npuviz.targets.neuroncore.nki.kernel import Kernel, execute, lower_traced, trace_on
from npuviz.targets.neuroncore.nki.user_python import SHIMS, imported
from npuviz.targets.neuroncore.spec import make_spec

LIST = Path(__file__).with_suffix(".txt")


@dataclass(frozen=True)
class Function:
    """A documented function."""

    module: str
    name: str
    parameters: tuple[str, ...]

    @property
    def generation(self) -> int:
        """1 or 2."""
        return 1 if self.module.startswith("neuronxcc") else 2


def documented() -> list[Function]:
    """Read all documented functions."""
    found: list[Function] = []
    for line in LIST.read_text(encoding="utf-8").splitlines():
        module, _, rest = line.partition(" ")
        name, _, parameters = rest.rstrip(")").partition("(")
        found.append(Function(module, name, tuple(filter(None, parameters.split(", ")))))
    return found


def problem(function: Function, folder: Path) -> str:
    """Return why a function does not run, "" if it does."""
    sys.path.insert(0, str(SHIMS))
    try:
        return _missing(function) or _stopped(function, folder)
    finally:
        sys.path.remove(str(SHIMS))
        for name in list(sys.modules):
            if name.partition(".")[0] in ("nki", "neuronxcc"):
                del sys.modules[name]


def _missing(function: Function) -> str:
    try:
        found: Any = importlib.import_module(function.module)
    except ModuleNotFoundError:  # a class or a group of functions
        module, _, group = function.module.rpartition(".")
        found = getattr(importlib.import_module(module), group)
    try:
        found = getattr(found, function.name)
    except AttributeError as error:
        return str(error)
    parameters = inspect.signature(found).parameters
    if function.name in TAKES_ANY or any(each.kind == each.VAR_POSITIONAL for each in parameters.values()):
        return ""
    absent = [each for each in function.parameters if each not in parameters]
    return f"does not take {', '.join(absent)}" if absent else ""


def _stopped(function: Function, folder: Path) -> str:
    call = CALLS.get((function.generation, function.name)) or CALLS.get((0, function.name))
    if call is None:
        return "no call of it is known to this benchmark"
    machine, _, line = call.rpartition("@ ")
    path = folder / f"{function.module.replace('.', '_')}_{function.name}.py"
    body = line.replace("; ", "\n    ")
    path.write_text(HEADS[function.generation].replace("CALL", body), encoding="utf-8")
    machine = machine.strip()
    spec = make_spec("trn2" if machine.isdigit() or not machine else machine, None, {})[0]
    module: Any = imported(path)
    kernel: Kernel = module.kernel[int(machine)] if machine.isdigit() else module.kernel
    x = np.random.default_rng(0).standard_normal((128, 64)).astype(np.float32)
    h, n = x.astype(ml_dtypes.bfloat16), (x * 10).astype(np.int32)
    try:
        traced = trace_on(kernel, (x, h, n), {}, spec)
        execute(traced, lower_traced(traced, spec, NoProgress()), spec, ())
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def main() -> None:
    """Print the table."""
    import tempfile

    counts: dict[str, Counter[bool]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for function in documented():
            said = problem(function, Path(folder))
            counts.setdefault(function.module, Counter())[not said] += 1
            if said or "--all" in sys.argv:
                print(f"{function.module}.{function.name}: {said or 'runs'}")
    for module, found in counts.items():
        print(f"{module}: {found[True]} of {found.total()} run")


if __name__ == "__main__":
    main()
