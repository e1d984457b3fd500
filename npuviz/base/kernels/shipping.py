"""Make the kernels' machine code that comes with the package, when that is built: see `shipped`.

    python -m npuviz.base.kernels.shipping [FOLDER [MODULE NAME]]

Compiles every kernel with `takes`, or the named one, in a process of its own, as many at once as there are
processors; code that is there for the same sources stays. Other files that a target brings are made by its
own `targets/*/load/shipping.py`.
"""

import importlib
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm

from npuviz.base.kernels import shipped
from npuviz.base.kernels.entries import Entry
from npuviz.base.kernels.sources import ROOT

GENERIC = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}
"""Environment that makes numba compile for every processor of this kind, not for the one that it runs on."""


def main(arguments: list[str]) -> int:
    """Make the missing code of all kernels, or of the named one; return an exit code."""
    folder = Path(arguments[0]) if arguments else shipped.FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    if len(arguments) > 1:
        kernels = [(arguments[1], arguments[2])]
    else:
        kernels = kernels_to_ship()
        wanted = {shipped.file_of(folder, *kernel) for kernel in kernels}
        for maker in ROOT.glob("targets/*/load/shipping.py"):
            wanted.update(importlib.import_module(_name_of(maker)).make(folder))
        for path in set(folder.iterdir()) - wanted:
            if path.is_file():
                path.unlink()
    missing = [kernel for kernel in kernels if not shipped.is_current(shipped.file_of(folder, *kernel))]
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return max(pool.map(partial(_make_apart, folder), missing), default=0)


def kernels_to_ship() -> list[tuple[str, str]]:
    """Return (module, name) of every kernel of the package that registered its arguments by `takes`."""
    found: list[tuple[str, str]] = []
    for path in sorted(ROOT.glob("targets/*/kernels/*.py")):
        module = _name_of(path)
        names = vars(importlib.import_module(module))
        own = [(name, value) for name, value in names.items() if isinstance(value, Entry)]
        found += [(module, name) for name, value in own if value.module == module and value.arguments]
    return found


def _name_of(path: Path) -> str:
    return ".".join(("npuviz", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")


def _make_apart(folder: Path, kernel: tuple[str, str]) -> int:
    """Compile a kernel in a process that does not use what this processor can do; return its exit code."""
    paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
    program = "from npuviz.base.kernels.shipping import make; make()"
    command = [sys.executable, "-c", program, str(folder), *kernel]
    environment = {**os.environ, **GENERIC, "PYTHONPATH": paths}
    return subprocess.run(command, env=environment, check=False).returncode


def make() -> None:
    """Compile the kernel that the command line names, FOLDER MODULE NAME, in this process."""
    folder, module, name = sys.argv[1:]
    symbol, code = code_of(getattr(importlib.import_module(module), name))
    shipped.write(shipped.file_of(Path(folder), module, name), symbol, code)


def code_of(entry: Any) -> tuple[str, bytes]:
    """Return the symbol of a kernel's function, and object code of only it and what it calls."""
    compiled = entry.compiled_apart()
    symbol = compiled.fndesc.mangled_name
    module = llvm.parse_bitcode(compiled.library._final_module.as_bitcode())  # noqa: SLF001
    for value in (*module.functions, *module.global_variables):
        if not value.is_declaration and value.name != symbol:
            value.linkage = "internal"
    target = shipped.target_machine()
    passes = llvm.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(module, llvm.create_pass_builder(target, llvm.create_pipeline_tuning_options()))
    return symbol, target.emit_object(module)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
