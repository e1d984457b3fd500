"""Launch functions that a user names where no host program has run: `--set launch=NAME[:ARGUMENT..],..`."""

from collections.abc import Sequence

import numpy as np

from npuviz.base.errors import UsageError
from npuviz.program.program import Note
from npuviz.targets.wavelet import isa
from npuviz.targets.wavelet.host.transfers import argument_word
from npuviz.targets.wavelet.wafer import HOST_LAUNCH, HostCommand, Wafer

LAUNCH = "launch"
"""Name of the setting; its launches run one after the other."""


def launches(wafer: Wafer, text: str) -> tuple[HostCommand, ...]:
    """Return the commands for `NAME[:ARGUMENT..]` with commas between launches. Raises UsageError."""
    known = _functions(wafer)
    found: list[HostCommand] = []
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, *arguments = part.split(":")
        if name not in known:
            names = " or ".join(known) or "nothing: no function is exported"
            raise UsageError(f"--set launch={name[:60]}: expected {names}")
        kinds = [isa.name_of("T_", kind) for kind in known[name]]
        if len(kinds) != len(arguments):
            wanted = f"{len(kinds)} arguments ({', '.join(kinds)})" if kinds else "no arguments"
            raise UsageError(f"--set launch={part[:60]}: {name} takes {wanted}")
        where = f"--set launch={name}"
        words = [_word(value, kind, where) for value, kind in zip(arguments, kinds, strict=True)]
        region = (0, 0, wafer.columns, wafer.rows)
        found.append(HostCommand(HOST_LAUNCH, name, region, len(words), np.array(words, np.uint32)))
    return tuple(found)


def launch_note(wafer: Wafer, text: str) -> Note:
    """Return a note that lists the functions that the user can launch."""
    names = ", ".join(_functions(wafer)) or "none"
    begin = f"launched: {text[:200]}" if text else "no host program has run"
    return Note("info", "host", f"{begin}; functions that --set launch=NAME can launch: {names}")


def unlaunched_note(wafer: Wafer, commands: Sequence[HostCommand]) -> Note | None:
    """Return a note that the host program launched none of the functions exported for it; None if it did.

    It is an error if the program gave no command at all; other programs may drive the PEs with streams.
    """
    names = ", ".join(_functions(wafer))
    if not names or any(command.kind == HOST_LAUNCH for command in commands):
        return None
    what = "launched none of the exported functions" if commands else "gave the chip no command; exported"
    return Note("warning" if commands else "error", "host", f"the host program {what}: {names[:200]}")


def _functions(wafer: Wafer) -> dict[str, tuple[int, ...]]:
    exports = (export for program in wafer.programs for export in program.exports)
    return {export.name: export.arguments for export in exports if export.function >= 0}


def _word(text: str, kind: str, where: str) -> int:
    try:
        value: object = float(text) if kind[0] in "fbc" else int(text, 0)
    except ValueError:
        raise UsageError(f"{where}: {text[:40]!r} is no {kind}") from None
    return argument_word(value, kind, where)
