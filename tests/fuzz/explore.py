"""`make fuzz`: inputs for every reader, for some minutes or up to a number, and a table of the outcomes."""

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from npuviz.base.units import format_bytes
from tests.fuzz.board import BYTES, CANCELLED, CRASHES, ERRORS, HANGS, INPUTS, LEAKS, SECONDS, TAKEN
from tests.fuzz.family import CORPUS, FAMILIES, names
from tests.fuzz.keeper import LOOK_SECONDS, Keeper, scratch_folder
from tests.fuzz.worker import Orders

NUM_WORKERS = 2
LIMIT_SECONDS = 10.0
HEADER = (
    "family",
    "inputs",
    "share",
    "taken",
    "errors",
    "cancelled",
    "leaks",
    "hangs",
    "crashes",
    "worst s",
    "worst memory",
)


def explore(arguments: argparse.Namespace) -> int:
    """Run the workers; the number of faults found."""
    families = arguments.families or names(arguments.package)
    scratch = Path(tempfile.mkdtemp(prefix="npuviz-fuzz-", dir=scratch_folder()))
    print(f"fuzz: seed {arguments.seed}, {arguments.workers} workers, scratch {scratch}", flush=True)
    keepers = [
        Keeper(
            Orders(
                str(scratch / f"worker{worker}"),
                arguments.package,
                families,
                str(arguments.corpus),
                arguments.seed,
                worker,
                shrink_seconds=arguments.shrink,
            ),
            arguments.limit,
        )
        for worker in range(arguments.workers)
    ]
    begin = shown = time.monotonic()
    is_stopped = False
    try:
        while not all(keeper.is_done for keeper in keepers):
            time.sleep(LOOK_SECONDS)
            for keeper in keepers:
                keeper.look()
            seconds = time.monotonic() - begin
            inputs = sum(keeper.board.counts[:, INPUTS].sum() for keeper in keepers)
            is_enough = inputs >= arguments.inputs if arguments.inputs else seconds >= arguments.minutes * 60
            if is_enough and not is_stopped:
                is_stopped = True
                for keeper in keepers:
                    keeper.board.stop()
            if time.monotonic() - shown > 60:
                shown = time.monotonic()
                print(f"fuzz: {seconds / 60:.0f} min, {inputs:,.0f} inputs", flush=True)
    except KeyboardInterrupt:
        print("fuzz: interrupted; what was found until now:")
    finally:
        for keeper in keepers:
            keeper.kill()
    number = report(families, keepers, time.monotonic() - begin)
    shutil.rmtree(scratch, ignore_errors=True)
    return number


def report(families: list[str], keepers: list[Keeper], seconds: float) -> int:
    """Print the table and the findings; the number of inputs that showed a fault."""
    boards = np.stack([np.asarray(keeper.board.counts) for keeper in keepers])
    counts = boards.sum(axis=0)
    counts[:, [SECONDS, BYTES]] = boards.max(axis=0)[:, [SECONDS, BYTES]]
    total = counts.sum(axis=0)
    total[[SECONDS, BYTES]] = counts.max(axis=0)[[SECONDS, BYTES]]
    rows = [HEADER, *(_row(name, row, total[INPUTS]) for name, row in zip(families, counts, strict=True))]
    rows.append(_row("all", total, total[INPUTS]))
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADER))]
    for row in rows:
        print(
            "  ".join(
                [row[0].ljust(widths[0]), *(t.rjust(w) for t, w in zip(row[1:], widths[1:], strict=True))]
            )
        )
    rate = total[INPUTS] / max(seconds, 1e-9)
    print(f"fuzz: {total[INPUTS]:,.0f} inputs in {seconds / 60:.1f} min ({rate:,.0f} a second)")
    for note in (note for keeper in keepers for note in keeper.notes() if "found" in note):
        print(f"  {note['kind']} of {note['found']}: {note['text'][:200]}\n    {note['path']}")
    return int(total[LEAKS] + total[HANGS] + total[CRASHES])


def _row(name: str, counts: np.ndarray, inputs: float) -> tuple[str, ...]:
    numbers = [f"{counts[column]:,.0f}" for column in (TAKEN, ERRORS, CANCELLED, LEAKS, HANGS, CRASHES)]
    share = f"{counts[INPUTS] / max(inputs, 1):.1%}"
    worst = [f"{counts[SECONDS]:.2f}", format_bytes(int(counts[BYTES]))]
    return (name, f"{counts[INPUTS]:,.0f}", share, *numbers, *worst)


def main() -> int:
    """Exit code 1 when something has to be mended."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("families", nargs="*", help="names of families; all when none is given")
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--inputs", type=int, default=0, help="so many inputs, however long it takes")
    parser.add_argument("--seed", type=int, default=time.time_ns() % (1 << 32))
    parser.add_argument("--workers", type=int, default=NUM_WORKERS)
    parser.add_argument("--limit", type=float, default=LIMIT_SECONDS, help="processor seconds of an attempt")
    parser.add_argument("--shrink", type=float, default=10.0, help="seconds to make a finding smaller")
    parser.add_argument("--corpus", type=Path, default=CORPUS, help="where findings go")
    parser.add_argument("--package", default=FAMILIES, help=argparse.SUPPRESS)
    return 1 if explore(parser.parse_args()) else 0


if __name__ == "__main__":
    sys.exit(main())
