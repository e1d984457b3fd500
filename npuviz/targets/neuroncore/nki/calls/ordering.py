"""What kernels say about the order of their instructions."""

from collections.abc import Generator
from contextlib import contextmanager

from npuviz.targets.neuroncore.nki.record.recording import current


@contextmanager
def no_reorder() -> Generator[None]:
    """Instructions of the body keep the kernel's order."""
    steps = current().steps
    first = len(steps)
    yield
    for step in steps[first:]:
        step.is_fixed = True
