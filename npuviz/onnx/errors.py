"""What a lowering says when it cannot."""


class CannotLower(Exception):
    """The machine cannot run this operator itself; the text says why."""
