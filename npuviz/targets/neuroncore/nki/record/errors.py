"""What is wrong with a kernel, by the names of NKI's own messages."""

import ast

from npuviz.base.errors import TargetError

UNDOCUMENTED = "is not in the public documentation of NKI, npuviz does not know what it does"

REFUSED = "refused-by-compiler"
"""Name of the warnings of what runs here and in the vendor's simulator, and is not compiled for the chip."""


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
    """A name that NKI's public documentation does not have, or has elsewhere; `hasattr` is False for it.

    reason  what is said about a name that is there elsewhere
    """

    def __init__(self, name: str, reason: str = "") -> None:
        super().__init__(reason or f"undocumented: {name} {UNDOCUMENTED}")


class OutOfBounds(IndexError):
    """An access beyond a tensor that the chip made."""


class KernelTimeout(BaseException):
    """Raised inside a kernel's Python when it runs for too long or the user cancels."""


def without_value(what: str, statement: ast.stmt | None, is_single: bool) -> KernelError:
    """The error of a tensor whose value decides how Python goes on; is_single  it has one element."""
    found = f"{what} has no value while the kernel is traced"
    if isinstance(statement, ast.While):
        return KernelError(
            f"{found}; a loop begins without a condition: cond = nt.scalar(True)",
            "err_while_loop_requires_unconditional_entry",
        )
    if is_single and isinstance(statement, ast.If):
        return KernelError(
            f"{found}; compute both ways and choose by nl.where", "err_dynamic_control_flow_not_supported"
        )
    return KernelError(
        f"{found}; for its elements write &, | and ~, for an optional argument `is not None`",
        "err_ambiguous_tensor_truth_value",
    )
