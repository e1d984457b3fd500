"""Keep the standard output free of what C libraries print there."""

import os
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def printed_to_stderr() -> Generator[None]:
    """Send what C libraries print on the standard output to the standard error inside a `with` block: scripts
    read JSON from the output."""
    try:
        kept = os.dup(1)
    except OSError:  # a program without a console
        yield
        return
    try:
        os.dup2(2, 1)
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
