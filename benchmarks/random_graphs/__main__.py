"""Runs random graphs and counts verdicts; each deviation is a line with its seed.

    python -m benchmarks.random_graphs [FIRST] [LAST] [--families NAME...] [--targets NAME...] [--save FOLDER]

Seeds go from FIRST to LAST - 1, for every family. Verdicts: "right"; "end to end": each operator is right on
the machine's own inputs, an output of the network is not; "wrong": an operator is wrong; "refused".
"""

import argparse
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import onnx

from benchmarks.random_graphs.builder import Builder
from benchmarks.random_graphs.networks import FAMILIES
from npuviz.base.errors import NpuvizError
from npuviz.workbench.choosing import targets
from npuviz.workbench.onnx_backend.execution import ExecutionOptions, execute

VERDICTS = ("right", "end to end", "wrong", "refused")


def make_graph(family: str, seed: int) -> tuple[onnx.ModelProto, list[np.ndarray]]:
    """Make a model and values of its inputs, in order; deterministic for a seed."""
    builder = Builder(np.random.default_rng(seed))
    FAMILIES[family](builder)
    return builder.model(), [*builder.inputs.values()]


def judged(model: onnx.ModelProto, inputs: list[np.ndarray], target: str) -> tuple[str, str]:
    """Run and check a model. Returns the verdict and, unless it is right, the first finding."""
    try:
        result = execute(model, inputs, ExecutionOptions(target)).check()
    except NpuvizError as error:
        return "refused", str(error)
    found = result.findings[0] if result.findings else None
    text = f"{found.tensor} {found.text}; {found.operator}: {found.cause}" if found else ""
    if result.num_failed:
        return "wrong", text
    is_right = result.is_passed and result.end_to_end is not None and not result.end_to_end.num_failed
    return ("right", "") if is_right else ("end to end", text)


def main(arguments: list[str]) -> int:
    """Print deviations and a table. Returns 1 if an operator was wrong or a graph was refused."""
    parser = argparse.ArgumentParser(prog="benchmarks.random_graphs", description=__doc__)
    parser.add_argument("first", type=int, nargs="?", default=0)
    parser.add_argument("last", type=int, nargs="?", default=50)
    parser.add_argument("--families", nargs="+", choices=FAMILIES, default=[*FAMILIES])
    known = [name for name, target in targets().items() if ".onnx" in target.file_kinds]
    parser.add_argument("--targets", nargs="+", choices=known, default=known)
    parser.add_argument("--save", type=Path, help="write the models that deviate into this folder")
    given = parser.parse_args(arguments)
    counts: Counter[tuple[str, str, str]] = Counter()
    for family in given.families:
        for seed in range(given.first, given.last):
            model, inputs = make_graph(family, seed)
            for target in given.targets:
                verdict, text = judged(model, inputs, target)
                counts[family, target, verdict] += 1
                if text:
                    print(f"{family} {seed} {target}: {verdict}: {text}", flush=True)
                    if given.save:
                        given.save.mkdir(parents=True, exist_ok=True)
                        onnx.save(model, given.save / f"{family}_{seed}.onnx")
    print("| graphs | target | " + " | ".join(VERDICTS) + " |")
    print("| --- | --- |" + " --- |" * len(VERDICTS))
    for family in given.families:
        for target in given.targets:
            row = " | ".join(str(counts[family, target, verdict]) for verdict in VERDICTS)
            print(f"| {family} | {target} | {row} |")
    return int(any(counts[key] for key in counts if key[2] in ("wrong", "refused")))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
