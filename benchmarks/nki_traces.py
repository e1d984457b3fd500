"""Kernels that a search made one after the other, with the times that it measured on trn1, beside those here.

    python -m benchmarks.nki_traces AUTOCOMP [OPERATOR ...] [KEY=VALUE ...]

AUTOCOMP is a checkout of ucb-bar/autocomp: examples/*/OPERATOR_trace.py has the candidates with their scores
(milliseconds, the 99th percentile of `nki.benchmark`), harnesses the inputs. KEY=VALUE are settings of the
machine. No rule of npuviz was made from these times.
"""

import ast
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from benchmarks.nki_judge import MARK, moved_bytes, with_harness
from benchmarks.nki_variants import spearman
from npuviz.targets.neuroncore.nki.absent import missing_packages
from npuviz.targets.neuroncore.nki.user_python import SHIMS

ROOT = Path(__file__).resolve().parents[1]
PRESET = "trn1"
SECONDS = 1200
"""For which a candidate may be simulated."""
_BF16 = np.dtype(ml_dtypes.bfloat16)
_F32 = np.dtype(np.float32)


@dataclass(frozen=True)
class Operator:
    """trace, harness  paths in the checkout;  shapes  of the arguments, with their types"""

    trace: str
    harness: str
    shapes: tuple[tuple[tuple[int, ...], np.dtype[Any]], ...]
    keywords: tuple[tuple[str, Any], ...] = ()


OPERATORS = {
    "gemm": Operator(
        "trn-tutorial/1_gemm",
        "trn-tutorial-nki1/2_gemm_test.py",
        (((8192, 4096), _BF16), ((8192, 8192), _BF16)),
    ),
    "mamba": Operator(
        "trn-tutorial/3_mamba",
        "trn-tutorial-nki1/3_mamba_test.py",
        (
            *(((1, 256, 2048), _F32),) * 2,
            ((256, 16), _F32),
            *(((1, 16, 2048), _F32),) * 2,
        ),
    ),
    "attention": Operator(
        "trn-tutorial/4_attention", "trn-tutorial-nki1/4_attention_test.py", (((128, 4096), _BF16),) * 3
    ),
    "sd_attention": Operator(
        "trn-tutorial/5_sd_attention", "trn-tutorial-nki1/5_sdattention_test.py", (((4096, 64), _F32),) * 3
    ),
    "conv1d": Operator(
        "trn-advanced/4_conv1d",
        "trn-advanced-nki1/4_conv1d_test.py",
        (((8, 512, 1, 2048), _F32), ((512, 1, 1, 3), _F32)),
        (("padding", ((0, 0), (1, 1))),),
    ),
}


def candidates(trace: Path) -> list[tuple[float, str]]:
    """(milliseconds, text) of each candidate of a trace, the first one first; nothing of it is run."""
    tree = ast.parse(trace.read_text(encoding="utf-8"))

    def walk(node: ast.Call) -> Iterator[tuple[float, str]]:
        given = {each.arg: each.value for each in node.keywords}
        parent = given.get("parent")
        if isinstance(parent, ast.Call):
            yield from walk(parent)
        yield float(ast.literal_eval(given["score"])), str(ast.literal_eval(given["code"]))

    first = next(each.value for each in tree.body if isinstance(each, ast.Expr))
    return list(walk(first)) if isinstance(first, ast.Call) else []


def timed(path: Path, name: str, settings: Sequence[str]) -> dict[str, Any]:
    """Milliseconds of the kernel `test` of a file, and bytes of HBM; values are not looked at."""
    operator, generator = OPERATORS[name], np.random.default_rng(0)
    given = [generator.random(shape, np.float32).astype(dtype) for shape, dtype in operator.shapes]
    with missing_packages():
        found = with_harness(path, "test", given, dict(operator.keywords), PRESET, settings)
    return {"milliseconds": found.milliseconds, **moved_bytes(found.tables)}


def simulated(harness: Path, text: str, name: str, settings: Sequence[str]) -> dict[str, Any]:
    """What a candidate does here, in a process of its own: "milliseconds" among it, or "reason" why not."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "candidate.py"
        path.write_text(
            harness.read_text(encoding="utf-8").replace("# SUBSTITUTE HERE", text), encoding="utf-8"
        )
        environment = {**os.environ, "NPUVIZ_KERNELS": "wait", "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "benchmarks.nki_traces", "one", str(path), name, *settings]
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                timeout=SECONDS,
                env=environment,
                check=False,
                cwd=ROOT,
            )
        except subprocess.TimeoutExpired:
            return {"reason": f"no end within {SECONDS} s"}
    lines = [line for line in done.stdout.splitlines() if line.startswith(MARK)]
    return (
        json.loads(lines[-1][len(MARK) :])
        if lines
        else {"reason": (done.stderr.strip().splitlines() or [""])[-1]}
    )


def report(checkout: Path, name: str, settings: Sequence[str]) -> None:
    """Print a line for each candidate of an operator, and how well they are ranked."""
    operator = OPERATORS[name]
    print(f"{name}: measured ms, here, ratio, MB read and written here")
    pairs: list[tuple[float, float]] = []
    for number, (score, text) in enumerate(candidates(checkout / "examples" / f"{operator.trace}_trace.py")):
        found = simulated(checkout / "harnesses" / operator.harness, text, name, settings)
        here = found.get("milliseconds", float("nan"))
        moved = f"{found.get('read', 0) / 1e6:9.1f} {found.get('written', 0) / 1e6:8.1f}"
        print(
            f"  {number:3} {score:8.3f} {here:8.3f} {here / score:6.2f} {moved} {found.get('reason', '')}",
            flush=True,
        )
        if np.isfinite(here):
            pairs.append((score, here))
    rank = spearman([each[0] for each in pairs], [each[1] for each in pairs])
    gains = [min(each) / each[0] for each in zip(*pairs, strict=True)] if pairs else [0.0, 0.0]
    print(f"  Spearman {rank:.2f}; best to first {gains[0]:.3f} measured, {gains[1]:.3f} here")


def main() -> None:
    """Print a table for each operator, or time one candidate."""
    words = [each for each in sys.argv[1:] if "=" not in each]
    settings = [each for each in sys.argv[1:] if "=" in each]
    if words[0] == "one":
        sys.path.insert(0, str(SHIMS))
        print(MARK + json.dumps(timed(Path(words[1]), words[2], settings)))
        return
    for name in words[1:] or OPERATORS:
        report(Path(words[0]), name, settings)


if __name__ == "__main__":
    main()
