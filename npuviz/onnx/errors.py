"""The exception with which a lowering refuses an operator."""

from npuviz.program.program import HostReason


class CannotLower(Exception):
    """The machine cannot run this operator itself.

    limit, found, change  as HostReason has them
    """

    def __init__(self, limit: str, found: str = "", change: str = "") -> None:
        super().__init__(limit)
        self.reason = HostReason(limit, found, change)


def host_reason(error: Exception) -> HostReason:
    """Convert the exception of a lowering to the reason why the operator goes to the Host."""
    if isinstance(error, CannotLower):
        return error.reason
    return HostReason(str(error) or type(error).__name__)
