"""Decodes with a language model, compares with ONNX Runtime, and summarizes the result as data and text."""

from pathlib import Path
from typing import Any

import numpy as np

from npuviz import __version__
from npuviz.base.names import printable
from npuviz.base.progress import Progress
from npuviz.base.text_table import table_lines
from npuviz.base.units import format_bytes, format_count, format_share
from npuviz.workbench.headless.exit_codes import EXIT_DONE, EXIT_FAILED
from npuviz.workbench.headless.host_operators import host_lines, host_operators
from npuviz.workbench.language.comparison import Comparison
from npuviz.workbench.language.decoding import Answer, Decoder, OnSession, read_prompt
from npuviz.workbench.language.files import reference_logits
from npuviz.workbench.language.phases import phase_values
from npuviz.workbench.opening import OpenOptions


def decode(
    path: Path,
    options: OpenOptions,
    prompt: np.ndarray,
    count: int,
    progress: Progress,
    on_session: OnSession,
    is_checked: bool = False,
) -> dict[str, Any]:
    """Run a prompt and `count` new tokens, and compare them with those of ONNX Runtime.

    is_checked  also compare every tensor of the first and the last step
    Raises NpuvizError. Exit code 1 in the summary: another token than ONNX Runtime's, or a check that failed.
    """
    decoder = Decoder(path, options, progress, on_session)
    tokens = read_prompt(decoder.model, prompt, count)
    comparison = Comparison(reference_logits(decoder.model, tokens, count, decoder.given))
    answer = decoder.run(tokens, count, comparison.take)
    checks: dict[str, Any] = {}
    if is_checked:
        for name, (machine, target) in answer.machines.items():
            found = target.check(machine, progress)
            checks[name] = {"tensors": found.num_tensors, "passed": found.is_passed}
    return _summary(path, options, answer, comparison, checks)


def _summary(
    path: Path,
    options: OpenOptions,
    answer: Answer,
    comparison: Comparison,
    checks: dict[str, Any],
) -> dict[str, Any]:
    program = answer.program
    assert program is not None
    wrong = comparison.first_difference
    reasons = []
    if wrong is not None:
        reasons.append(
            f"token {wrong + 1} is {answer.tokens[wrong]}, ONNX Runtime's is {comparison.tokens[wrong]} "
            f"(by {format_share(comparison.gaps[wrong], 2)} of the largest logit; logits are off by up to "
            f"{format_share(comparison.errors[wrong], 2)} there)"
        )
    reasons += [f"the check of {name} failed" for name, check in checks.items() if not check["passed"]]
    prompt_tokens = answer.prompt.shape[1]
    phases = [phase_values("prefill", prompt_tokens, answer.prefill)]
    if answer.decode:
        phases.append(phase_values("decode", len(answer.decode), answer.decode))
    states = answer.model.states
    row_bytes = sum(each.row_bytes for each in states)
    fixed_bytes = sum(answer.states[each.past].nbytes for each in states if not each.grows)
    return {
        "npuviz": __version__,
        "model": printable(path),
        "title": program.title,
        "target": program.target,
        "preset": options.preset or None,
        "language": {
            "prompt_tokens": prompt_tokens,
            "tokens": answer.tokens,
            "reference_tokens": comparison.tokens,
            "equal": wrong is None,
            "first_difference": wrong,
            "smallest_gap": min(comparison.gaps),
            "largest_error": max(comparison.errors),
            "products_rounded_by_reference": answer.model.rounded,
            "time_to_first_token_seconds": phases[0]["seconds"],
            "tokens_per_second": phases[1]["tokens_per_second"] if len(phases) > 1 else None,
            "bytes_per_token": phases[1]["bytes_per_token"] if len(phases) > 1 else None,
            "cache": {
                "rows": answer.rows,
                "bytes": answer.rows * row_bytes + fixed_bytes,
                "bytes_per_row": row_bytes,
                "bytes_of_fixed_size": fixed_bytes,
                "is_one_program": answer.model.is_fixed,
            },
            "phases": phases,
            "checks": checks,
        },
        "exit": {"code": EXIT_FAILED if reasons else EXIT_DONE, "reason": "; ".join(reasons)},
        "on_host": host_operators(program),
    }


def decode_text(summary: dict[str, Any]) -> str:
    """Write several lines: the tokens, whether they are right, and the cost of each phase."""
    found = summary["language"]
    lines = [
        f"{summary['title']}  on  {summary['target']} ({summary['preset'] or 'default'})",
        "",
        f"  prompt    {found['prompt_tokens']} tokens",
        f"  tokens    {' '.join(map(str, found['tokens']))}",
    ]
    if found["equal"]:
        count = len(found["tokens"])
        lines.append(
            f"  check     all {count} equal to ONNX Runtime's (closest choice: "
            f"{format_share(found['smallest_gap'], 2)} of the largest logit; logits off by up to "
            f"{format_share(found['largest_error'], 2)})"
        )
    if found["products_rounded_by_reference"]:
        lines.append(
            f"            {found['products_rounded_by_reference']} products are coarser there: ONNX Runtime "
            f"rounds what they read to 8 bits (accuracy_level 4)"
        )
    for name, check in found["checks"].items():
        word = "passed" if check["passed"] else "FAILED"
        lines.append(f"  {name:<9} {word}, {check['tensors']} tensors compared")
    if summary["exit"]["code"]:
        lines.append(f"  FAILED    {summary['exit']['reason']}")
    lines.append(f"  cache     {_cache_text(found['cache'])}")
    lines.append(f"  first     token after {_time(found['time_to_first_token_seconds'])}")
    if found["tokens_per_second"]:
        lines.append(
            f"  then      {found['tokens_per_second']:,.1f} tokens/s, "
            f"{format_bytes(round(found['bytes_per_token']))} to and from DRAM for each"
        )
    rows = [
        (
            each["phase"], str(each["tokens"]), format_count(each["cycles"]), _time(each["seconds"]),
            format_bytes(each["dram_bytes"]), each["bound"],
        )
        for each in found["phases"]
    ]  # fmt: skip
    lines += [
        "",
        *table_lines([("phase", "tokens", "cycles", "time", "DRAM", "bound by"), *rows], indent="  "),
    ]
    return "\n".join([*lines, *host_lines(summary["on_host"])])


def _cache_text(cache: dict[str, Any]) -> str:
    """Describe what is kept between the steps, and what each does with it."""
    if not cache["bytes"]:
        return "nothing is kept: each step runs the whole text again, compiled for its length"
    written = format_bytes(cache["bytes_per_row"])
    steps = f"copied behind {written} of new rows in each step, which is compiled for its length"
    if cache["is_one_program"]:
        steps = f"{written} of new rows a token, one program for all steps"
    states = format_bytes(cache["bytes_of_fixed_size"])
    if not cache["bytes_per_row"]:
        return f"{states} of states in DRAM, which each step takes from the one before"
    beside = f" ({states} of a fixed size)" if cache["bytes_of_fixed_size"] else ""
    return f"{cache['rows']} rows in DRAM, {format_bytes(cache['bytes'])}{beside}: {steps}"


def _time(seconds: float) -> str:
    for factor, unit in ((1.0, "s"), (1e3, "ms")):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"
