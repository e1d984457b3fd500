"""Explains an error and what to do about it in a few sentences, and tells faults of npuviz from bad input."""

import errno
import traceback
from dataclasses import dataclass

from npuviz.base.errors import (
    ConditionError,
    DoesNotFit,
    ExportError,
    FormatError,
    NpuvizError,
    SimulationError,
    SourceError,
    UnknownTarget,
    UnsupportedOperator,
)
from npuviz.workbench.crash_report import report_text

_ADVICE: tuple[tuple[type[NpuvizError], str], ...] = (
    (UnknownTarget, "Choose the machine yourself: --target, or another machine in the window. "
     "`npuviz targets` lists the machines and the files that each of them takes."),
    (UnsupportedOperator, "This machine has no way to compute the operator. Open the model for another "
     "machine, or replace the operator in the model. `npuviz info FILE` lists the operators of a model."),
    (DoesNotFit, "Give the machine larger memories (--set NAME=VALUE, or another preset), "
     "or open a model with smaller tensors or a smaller batch."),
    (SourceError, "Correct the program text at that line, then reload the file (Ctrl+R)."),
    (ConditionError, "Conditions look like: cycle == 1200, instr 10..20, op conv1 ends, "
     "queue Core[0].LD >= 2, write DRAM 0x1000. The Breakpoints panel completes the names of this machine."),
    (FormatError, "The file is not what its format demands. Where another program wrote it, write it again; "
     "where it was downloaded, compare its size with the original's."),
    (ExportError, "Choose another format or another place to write to. What is open was not changed."),
)  # fmt: skip
_SYSTEM = {
    errno.ENOENT: "The path does not exist: look for a typing error, or for a folder that was renamed.",
    errno.EACCES: "You may not read or write this. Change its rights, or choose another folder.",
    errno.EROFS: "The disk cannot be written. Choose another folder.",
    errno.ENOSPC: "The disk is full. Make room, or choose another disk.",
    errno.EISDIR: "A file was expected, and this is a folder.",
    errno.ENOTDIR: "A folder was expected on the way, and there is a file.",
}
FAULT = (
    "This is a fault of npuviz, not of your file. What is open was not changed. "
    "The report has what its developers need."
)


@dataclass(frozen=True, slots=True)
class Failure:
    """An error for people.

    text     one line: what went wrong
    details  what it means and what to do
    report   what a developer needs, "" unless it is a fault of npuviz
    """

    text: str
    details: str
    report: str = ""

    @property
    def is_fault(self) -> bool:
        """Whether npuviz is to blame."""
        return bool(self.report)


def failure_of(error: BaseException) -> Failure:
    """Describe an exception to a user: one line, advice, and a report if it is a fault of npuviz."""
    if isinstance(error, NpuvizError) and not isinstance(error, SimulationError):
        found = (advice for kind, advice in _ADVICE if isinstance(error, kind))
        return Failure(_one_line(str(error)), next(found, "Nothing was changed."))
    if isinstance(error, OSError):
        text = f"{error.filename or 'file'}: {error.strerror or error}"
        advice = _SYSTEM.get(error.errno or 0, "The operating system refused. Nothing was changed.")
        return Failure(_one_line(text), advice)
    if isinstance(error, MemoryError):
        return Failure(
            "out of memory; open a smaller model, or record nothing (--record none)",
            "Close other programs, give checkpoints less memory, or record only a range of cycles.",
        )
    text = f"internal error: {type(error).__name__}: {error}"
    trace = "".join(traceback.format_exception(error))
    return Failure(_one_line(text), f"{FAULT}\n\n{trace}", report_text(error))


def _one_line(text: str) -> str:
    return " ".join(text.split())
