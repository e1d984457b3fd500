"""Runs parts of the soak test, stores their results in measured.json, and writes docs/reliability.md from it.

    python -m benchmarks.soak [--share 0.1] [PART ...]

Parts: kill, conditions, containers, interrupts, caches, cycles, commands; all by default. `--share` scales
the number of tries. Exit code 1 if anything went wrong.
"""

import argparse
import importlib
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.soak.outcome import Outcome
from benchmarks.soak.page import page

ROOT = Path(__file__).resolve().parents[2]
KEPT = Path(__file__).with_name("measured.json")
"""Last results of every part, from which the page is written."""
PAGE = ROOT / "docs" / "reliability.md"
PARTS = ("kill", "conditions", "containers", "interrupts", "caches", "cycles", "commands")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the parts. Returns 1 if any try failed, else 0."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--share", type=float, default=1.0, help="how much of it, 1 for all")
    chosen = parser.parse_args(arguments)
    if unknown := set(chosen.parts) - set(PARTS):
        parser.error(f"unknown part {min(unknown)}; known: {', '.join(PARTS)}")
    is_good = True
    for part in chosen.parts or PARTS:
        begin = time.monotonic()
        found: list[Outcome] = []
        for outcome in importlib.import_module(f"benchmarks.soak.{part}").run(chosen.share):
            found.append(outcome)
            is_good = is_good and outcome.good == outcome.tried
            print(f"{outcome.good} of {outcome.tried}  {outcome.what}  {outcome.figures}", flush=True)
            for fault in outcome.faults:
                print(f"    {fault}", flush=True)
        # Another part may have been run meanwhile.
        kept = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}
        kept[part] = {
            "date": time.strftime("%Y-%m-%d"),
            "minutes": round((time.monotonic() - begin) / 60, 1),
            "rows": [asdict(outcome) for outcome in found],
        }
        KEPT.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
        PAGE.write_text(page({part: kept[part] for part in PARTS if part in kept}), encoding="utf-8")
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
