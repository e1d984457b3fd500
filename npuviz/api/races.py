"""Find races of a program, from Python."""

from pathlib import Path
from typing import Any, Unpack

from npuviz.api.opening import OpenArguments, chosen_file
from npuviz.base.progress import NoProgress


def races(
    path: str | Path, seeds: int = 100, jobs: int = 1, **arguments: Unpack[OpenArguments]
) -> dict[str, Any]:
    """Run a program with `seeds` other sets of latencies and find the first reads that see another value.

    jobs  processes; more than 1 needs a main module that can be imported again (`if __name__ == ...`)
    Returns what `npuviz races --json` prints (docs/races.md). A seed is replayed by
    `npuviz.open(path, settings={"latency_seed": N})`. Raises NpuvizError as `npuviz.open`.
    """
    from npuviz.workbench.races.search import find_races

    file, options = chosen_file(path, arguments, "races")
    return find_races(file, options, seeds, jobs, NoProgress())
