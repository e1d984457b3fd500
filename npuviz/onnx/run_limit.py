"""Limits the duration of runs of models whose loops may never end."""

import os
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager

import onnx

from npuviz.base.errors import UsageError
from npuviz.onnx.parameters import subgraphs
from npuviz.onnx.runtime import onnxruntime

LIMIT_VARIABLE = "NPUVIZ_RUN_SECONDS"
"""Environment variable: seconds that ONNX Runtime may take for a run of a model with a Loop."""
USUAL_SECONDS = 60.0


def limit_seconds() -> float:
    """Return the limit in seconds. Raises UsageError if the variable is no number of seconds."""
    text = os.environ.get(LIMIT_VARIABLE, "")
    try:
        seconds = float(text) if text else USUAL_SECONDS
    except ValueError:
        seconds = -1.0
    if not 0 < seconds < 1e6:
        raise UsageError(f"{LIMIT_VARIABLE}={text[:40]}: expected seconds, as 600")
    return seconds


def loop_names(graph: onnx.GraphProto) -> Iterator[str]:
    """Yield the names of the Loop nodes of a graph and its subgraphs."""
    for number, node in enumerate(graph.node):
        if node.op_type == "Loop":
            yield node.name or f"Loop_{number}"
        for inner in subgraphs(node):
            yield from loop_names(inner)


def over_limit(names: list[str]) -> str:
    """Write the message for loops that took too long."""
    shown = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
    return (
        f"Loop {shown} did not end in {limit_seconds():g} s; if it needs longer, "
        f"raise the limit with {LIMIT_VARIABLE}=600"
    )


@contextmanager
def limited(names: list[str]) -> Generator[onnxruntime.RunOptions]:
    """Give the options for one run of a model with these loops, and terminate the run at the limit.

    Raises TimeoutError, which says what to do, for a run that was terminated.
    """
    options = onnxruntime.RunOptions()
    if not names:
        yield options
        return
    is_over = threading.Event()

    def end() -> None:
        is_over.set()
        options.terminate = True

    timer = threading.Timer(limit_seconds(), end)
    timer.daemon = True
    timer.start()
    try:
        yield options
    except Exception as error:
        if is_over.is_set():
            raise TimeoutError(over_limit(names)) from error
        raise
    finally:
        timer.cancel()
