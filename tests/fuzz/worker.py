"""The process that attempts inputs: one after the other, in rounds over the families, or those of a list."""

import faulthandler
import gc
import json
import os
import resource
import signal
import sys
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import psutil

from tests.fuzz.board import BYTES, CANCELLED, ERRORS, INPUTS, LEAKS, SECONDS, TAKEN, Board
from tests.fuzz.family import Family, Outcome, keep, load
from tests.fuzz.shrink import shrink

WORN_OUT_BYTES = 3 << 29
"""A worker that holds more between two rounds makes place for a new one."""


@dataclass(frozen=True)
class Orders:
    """What a worker is to do.

    scratch       folder for the input under way, the board and the findings
    package       where the families are
    families      their names
    corpus        where findings go
    seed, worker, round  what random numbers are made from
    replay        (family, file) of inputs to try, None explores
    first         so many of them are done
    memory_bytes  address space on top of what the family's code takes
    shrink_seconds  for each finding
    """

    scratch: str
    package: str
    families: list[str]
    corpus: str
    seed: int = 0
    worker: int = 0
    round: int = 0
    replay: list[tuple[str, str]] | None = None
    first: int = 0
    memory_bytes: int = 4 << 30
    shrink_seconds: float = 10.0


class Worker:
    """Attempts inputs and writes on the board what comes of them."""

    def __init__(self, orders: Orders) -> None:
        self.orders = orders
        self.scratch = Path(orders.scratch)
        self.board = Board.at(self.scratch / "board", len(orders.families))
        self._families: dict[str, Family] = {}
        self._pools: dict[str, list[bytes]] = {}
        self._number = orders.first

    def explore(self) -> None:
        """Go round the families until the board says stop."""
        number = self.orders.round
        while not self.board.is_stopped:
            # In another order each time: a family that ends the worker must not keep the same ones waiting.
            order = list(enumerate(self.orders.families))
            Random(f"{self.orders.seed} {self.orders.worker} {number}").shuffle(order)
            for index, name in order:
                self._visit(index, self._family(name), number)
                if self.board.is_stopped:
                    return
            number += 1
            self._note({"round": number})
            if psutil.Process().memory_info().rss > WORN_OUT_BYTES:
                return

    def replay(self) -> None:
        """Try the inputs of the list."""
        replay = self.orders.replay or []
        for number in range(self.orders.first, len(replay)):
            name, file = replay[number]
            family = self._family(name)
            self._number = number
            self._limit_memory()
            outcome = self._attempt(self.orders.families.index(name), family, Path(file).read_bytes())
            self._note({"file": file, "kind": outcome.kind, "text": outcome.text[:300]})

    def _family(self, name: str) -> Family:
        if name not in self._families:
            family = load(name, self.orders.package)
            family.prepare()
            self._families[name] = family
            self._pools[name] = family.pool(Path(self.orders.corpus))
        return self._families[name]

    def _visit(self, index: int, family: Family, number: int) -> None:
        rng = Random(f"{self.orders.seed} {self.orders.worker} {number} {family.name}")
        pool = self._pools[family.name]
        self._limit_memory()
        if number == 0:
            for data in pool:
                self._try(index, family, data)
        for _ in range(family.share):
            self._try(index, family, family.mutate(rng.choice(pool), rng))
        self.board.of(index)[BYTES] = max(self.board.of(index)[BYTES], _peak_bytes())

    def _try(self, index: int, family: Family, data: bytes) -> None:
        self._number += 1
        outcome = self._attempt(index, family, data)
        if outcome.is_fault and self._is_new(family, outcome):
            self._keep(index, family, outcome, data)

    def _attempt(self, index: int, family: Family, data: bytes) -> Outcome:
        path = self.scratch / f"input{family.suffix}"
        path.write_bytes(data)
        counts = self.board.of(index)
        began = time.process_time()
        self.board.begin(index, self._number, began)
        outcome = family.outcome(path)
        self.board.end()
        counts[SECONDS] = max(counts[SECONDS], time.process_time() - began)
        counts[INPUTS] += 1
        counts[{"taken": TAKEN, "error": ERRORS, "cancelled": CANCELLED}.get(outcome.kind, LEAKS)] += 1
        return outcome

    def _is_new(self, family: Family, outcome: Outcome) -> bool:
        """Whether no worker of this run has shown the fault."""
        known = self.scratch.parent / "known"
        known.mkdir(exist_ok=True)
        name = f"{family.name} {outcome.signature}".replace("/", "_")[:200]
        try:
            (known / name).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def _keep(self, index: int, family: Family, outcome: Outcome, data: bytes) -> None:
        first = keep(Path(self.orders.corpus), family, outcome, data)
        self._note({"found": family.name, "kind": outcome.kind, "path": str(first), "text": outcome.text})
        before = self.board.of(index).copy()

        def shows_it(smaller: bytes) -> bool:
            return self._attempt(index, family, smaller).signature == outcome.signature

        smaller = shrink(data, shows_it, self.orders.shrink_seconds)
        self.board.of(index)[:] = before
        if len(smaller) < len(data):
            first.unlink()
            keep(Path(self.orders.corpus), family, outcome, smaller)

    def _limit_memory(self) -> None:
        gc.collect()
        _forget_peak()
        limit = psutil.Process().memory_info().vms + self.orders.memory_bytes
        resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))

    def _note(self, line: dict[str, Any]) -> None:
        with (self.scratch / "notes").open("a") as notes:
            notes.write(json.dumps(line) + "\n")


def _peak_bytes() -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) << 10


def _forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def main() -> None:
    """Follow the orders of a file."""
    orders = Orders(**json.loads(Path(sys.argv[1]).read_text()))
    stacks = (Path(orders.scratch) / "stacks").open("a")
    faulthandler.enable(stacks)
    faulthandler.register(signal.SIGUSR1, stacks)
    warnings.simplefilter("ignore")
    os.chdir(orders.scratch)
    worker = Worker(orders)
    worker.explore() if orders.replay is None else worker.replay()
    worker.board.end()
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
