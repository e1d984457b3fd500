"""Define every exception that npuviz raises on purpose.

NpuvizError
 +-- FormatError        bytes on disk are wrong (file, offset, field, expected, found, hint)
 +-- TargetError        a target cannot take this program or configuration
 |    +-- UnknownTarget
 |    +-- UnsupportedOperator
 |    +-- DoesNotFit
 +-- SourceError        a program text is wrong (file, line, column, text, hint)
 +-- ConditionError     a breakpoint text cannot be understood (text, span)
 +-- ExportError        a tool's format cannot express it, or writing failed
 +-- UsageError         a command or option was used wrongly
 |    +-- SettingsNeeded  the file opens once settings are given that it names
 +-- SimulationError    an invariant of npuviz broke: a bug
 +-- Cancelled          the user asked for it; never shown as a failure

Misbehaviour of a simulated chip is not here: it is a stop reason. Scripts that run kernels have no session
to look at; what is found in those is a Python warning:

KernelWarning           something about a kernel
 +-- HazardWarning      a hazard that its run met: values may be others on the chip
"""

from pathlib import Path

from npuviz.base.names import echo

LONGEST_TEXT = 900
"""Longest text of an error, in characters; a longer one is cut in the middle."""
LONGEST_PART = 400
"""Longest text of what was found, and of the name of the field in which it was found, in characters."""


class KernelWarning(UserWarning):
    """Something that the user should know about a kernel that a script ran;
    the kernel still gave its result."""


class HazardWarning(KernelWarning):
    """A hazard that the run of a kernel met."""


class NpuvizError(Exception):
    """Base of all errors whose text is meant for the user: one line, no traceback.

    Whatever the text holds, it is shown as one printable line of at most LONGEST_TEXT characters.
    """

    def __init__(self, text: str = "") -> None:
        super().__init__(echo(text.replace("\n", " "), LONGEST_TEXT))


class FormatError(NpuvizError):
    """Bytes or text of a file are not what their format demands."""

    def __init__(
        self,
        file: str | Path,
        *,
        field: str = "",
        offset: int | None = None,
        expected: str = "",
        found: str = "",
        hint: str = "",
    ) -> None:
        self.file = str(file)
        self.field = echo(field, LONGEST_PART)
        self.offset = offset
        self.expected = expected
        self.found = echo(found, LONGEST_PART)
        self.hint = hint
        super().__init__(self._message())

    def _message(self) -> str:
        where = self.file
        if self.offset is not None:
            where += f", byte {self.offset}"
        if self.field:
            where += f", {self.field}"
        parts = [where]
        if self.expected and self.found:
            parts.append(f"expected {self.expected}, found {self.found}")
        elif self.expected:
            parts.append(f"expected {self.expected}")
        elif self.found:
            parts.append(f"found {self.found}")
        text = ": ".join(parts)
        return f"{text}; {self.hint}" if self.hint else text


class TargetError(NpuvizError):
    """A target cannot take this program or this configuration."""


class UnknownTarget(TargetError):
    """No installed target has this id, or none accepts the file."""


class UnsupportedOperator(TargetError):
    """A target has neither a lowering nor a host placement for an operator."""


class DoesNotFit(TargetError):
    """Something is larger than the memory or the limit that must hold it."""


class SourceError(NpuvizError):
    """A program text is wrong at a place that can be shown."""

    def __init__(self, file: str, line: int, column: int, text: str, hint: str = "") -> None:
        self.file = file
        self.line = line
        self.column = column
        self.text = text
        self.hint = hint
        message = f"{file}:{line}:{column}: {text}"
        super().__init__(f"{message}; {hint}" if hint else message)


class ConditionError(NpuvizError):
    """A breakpoint text cannot be understood; `span` is the (start, end) of the bad part."""

    def __init__(self, text: str, span: tuple[int, int], reason: str) -> None:
        self.text = text
        self.span = span
        self.reason = reason
        before, bad, after = text[: span[0]], text[span[0] : span[1]], text[span[1] :]
        marked = f"{echo(before, 40)}>>{echo(bad)}<<{echo(after, 40)}"
        super().__init__(f"condition {marked!r}: {reason}")


class ExportError(NpuvizError):
    """A tool's format cannot express the trace, or writing the file failed."""


class UsageError(NpuvizError):
    """A command, option or argument was used wrongly."""


class SettingsNeeded(UsageError):
    """Opening a file needs settings that nobody gave; a window can ask the user for them."""


class SimulationError(NpuvizError):
    """An invariant of npuviz broke. Always a bug of npuviz, never of the user's program."""


class Cancelled(NpuvizError):
    """The user cancelled the work; handled apart from failures."""
