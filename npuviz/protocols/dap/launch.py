"""Opens the program of a launch request."""

import os
from pathlib import Path
from typing import Any

from npuviz.api import DebugSession, OpenArguments, open_session
from npuviz.base.errors import UsageError
from npuviz.base.names import echo
from npuviz.protocols.dap.arguments import Arguments, number_in, object_in, text_in
from npuviz.workbench.arguments import read_array

TEXTS = ("target", "preset", "kernel", "grid")


def open_launched(arguments: Arguments) -> DebugSession:
    """Open the program that a launch request names. Raises NpuvizError, OSError."""
    program = text_in(arguments, "program", "")
    if not program:
        raise UsageError("launch needs `program`: a model, a kernel, a folder of a CSL program")
    folder = text_in(arguments, "cwd", os.getcwd())
    path = Path(folder, program)
    chosen: dict[str, Any] = {name: text for name in TEXTS if (text := text_in(arguments, name, ""))}
    if config := text_in(arguments, "config", ""):
        chosen["config"] = Path(folder, config)
    chosen["settings"] = object_in(arguments, "settings")
    chosen["shapes"] = object_in(arguments, "shapes")
    chosen["seed"] = number_in(arguments, "seed", 0)
    inputs = object_in(arguments, "inputs")
    for name, file in inputs.items():
        if not isinstance(file, str):
            raise UsageError(f"inputs: {echo(name)}: expected the name of a .npy file")
    chosen["inputs"] = {name: read_array(Path(folder, file)) for name, file in inputs.items()}
    found = open_session(path if path.exists() else program, **OpenArguments(**chosen))
    if found.opened.session is None:
        raise UsageError(f"{program}: a recorded trace has no machine to debug; launch its model")
    return found
