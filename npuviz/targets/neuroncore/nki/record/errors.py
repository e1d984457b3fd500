"""What is wrong with a kernel, by the names of NKI's own messages."""

from npuviz.base.errors import TargetError

UNDOCUMENTED = "is not in the public documentation of NKI, npuviz does not know what it does"


class KernelError(TargetError):
    """A rule of NKI that a kernel breaks.

    name  of NKI's documentation ("err_num_partition_mismatch"), "" where it has none
    """

    def __init__(self, text: str, name: str = "") -> None:
        super().__init__(f"{name}: {text}" if name else text)
        self.name = name

    def at(self, place: str) -> "KernelError":
        """The same error with its place ("kernel.py:12") at its head."""
        if not place or str(self).startswith(f"{place}: "):
            return self
        made = KernelError(f"{place}: {self}")
        made.name = self.name
        return made


class Undocumented(KernelError, AttributeError):
    """A name that NKI's public documentation does not have; `hasattr` is False for it."""

    def __init__(self, name: str) -> None:
        super().__init__(f"undocumented: {name} {UNDOCUMENTED}")


class OutOfBounds(IndexError):
    """An access beyond a tensor that the chip made."""


class KernelTimeout(BaseException):
    """Raised inside a kernel's Python when it runs for too long or the user cancels."""
