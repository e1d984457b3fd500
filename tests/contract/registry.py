"""The programs that the contract suite runs. A new target adds a case and is done.

Keep programs small: a few hundred to a few thousand cycles; the suite steps through them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from npuviz.base.progress import NoProgress
from npuviz.program.program import Program
from npuviz.sim.machine import Machine
from npuviz.sim.target import LoadRequest, Target
from tests.toy.target import TARGET as TOY
from tests.toy.target import write_toy


@dataclass(frozen=True)
class Case:
    """A small program for one target.

    request  writes the program's files into an empty folder and says how to load them
    """

    name: str
    target: Target
    request: Callable[[Path], LoadRequest]

    @cached_property
    def loaded(self) -> tuple[Any, Program]:
        """Spec and program; made once."""
        with TemporaryDirectory() as folder:
            return self.target.load(self.request(Path(folder)), NoProgress())

    def make(self) -> Machine:
        """A new machine at cycle 0."""
        return self.target.build(*self.loaded)


def _toy(**sizes: int) -> Callable[[Path], LoadRequest]:
    return lambda folder: LoadRequest(write_toy(folder / "small.toy", **sizes))


CASES = [
    Case("toy", TOY, _toy(blocks=4)),
    Case("toy with short queues", TOY, _toy(blocks=5, queue=1, elements=6, latency=2)),
]
