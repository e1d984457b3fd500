"""A prompt and the tokens after it on a simulated machine, its KV cache kept between the steps.

A step is a program of its own. Where all that reads the cache takes its length in use as an input, one
program serves every step and the cache has the length of the whole answer from the beginning; else each step
is compiled for the cache as long as it is by then.
"""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from npuviz.base.errors import TargetError, UsageError
from npuviz.base.progress import NoProgress, Progress
from npuviz.debug.session import Session
from npuviz.onnx.draft import is_of_one_run
from npuviz.onnx.language_model import LanguageModel, read_language_model
from npuviz.program.program import Program
from npuviz.sim.machine import HOST_OPERATOR, HasHazards, Machine
from npuviz.sim.stop import StopKind
from npuviz.sim.target import Feeds, LoadRequest, Target
from npuviz.workbench.choosing import choose_target
from npuviz.workbench.language.files import Arrays, cache_file, empty_cache, step_inputs
from npuviz.workbench.language.phases import Step, step_of
from npuviz.workbench.opening import OpenOptions

ROW_STEP = 16
"""A cache of one length for all steps is a multiple of this."""
MOST_TOKENS = 4096
_CHECKPOINT_BYTES = 1 << 20

OnSession = Callable[[Session], None]


@dataclass
class Answer:
    """What a run of tokens gave.

    prompt  (1, tokens);  tokens  the new ones;  gaps  of each: the best logit less the second, as a share of
    the largest magnitude;  rows  of the cache when the last step ran;  program  of the last step
    checks  (phase, machine, target) of the first and the last step
    """

    model: LanguageModel
    prompt: np.ndarray
    rows: int = 0
    tokens: list[int] = field(default_factory=list[int])
    gaps: list[float] = field(default_factory=list[float])
    prefill: list[Step] = field(default_factory=list[Step])
    decode: list[Step] = field(default_factory=list[Step])
    program: Program | None = None
    machines: dict[str, tuple[Machine, Target]] = field(default_factory=dict[str, tuple[Machine, Target]])


def read_prompt(model: LanguageModel, values: np.ndarray, count: int) -> np.ndarray:
    """A prompt as (1, tokens) whole numbers. Raises UsageError for one that the model cannot take."""
    if (
        values.dtype.kind not in "iu"
        or values.size == 0
        or values.ndim > 2
        or values.size != values.shape[-1]
    ):
        raise UsageError(
            f"--prompt: expected the numbers of tokens in one row, found {values.dtype} {values.shape}"
        )
    prompt = values.reshape(1, -1).astype(np.int64)
    low, high = int(prompt.min()), int(prompt.max())
    if low < 0 or (model.vocabulary and high >= model.vocabulary):
        wrong = low if low < 0 else high
        raise UsageError(f"--prompt: token {wrong} is none of the model's 0 to {model.vocabulary - 1}")
    needed = prompt.shape[1] + count - 1
    if model.limit and needed > model.limit:
        raise UsageError(
            f"--decode: {prompt.shape[1]} tokens of the prompt and {count} new ones need a cache of {needed} "
            f"rows, the model has {model.limit} ({model.limited_by}): shorten the prompt or decode fewer"
        )
    return prompt


class Decoder:
    """Runs the steps of a language model on a target."""

    def __init__(self, path: Path, options: OpenOptions, progress: Progress, on_session: OnSession) -> None:
        self.model = read_language_model(path)
        self._options = options
        self._progress = progress
        self._on_session = on_session
        self._target = choose_target(path, options.target, options.preset)
        self._kept: tuple[Any, Program] | None = None

    def run(self, values: np.ndarray, count: int) -> Answer:
        """The prompt in one step, then token by token, `count` in all. Raises NpuvizError."""
        if not 1 <= count <= MOST_TOKENS:
            raise UsageError(f"--decode {count}: expected 1 to {MOST_TOKENS} tokens")
        model = self.model
        answer = Answer(model, read_prompt(model, values, count))
        with cache_file(model) if model.is_fixed else nullcontext(model.path) as path:
            before = answer.prompt.shape[1]
            inputs = {**step_inputs(model, answer.prompt, 0, before), **empty_cache(model, 0)}
            machine = self._step(path, inputs, is_kept=False)
            answer.prefill.append(step_of(machine))
            answer.machines["prefill"] = (machine, self._target)
            length = -(-(before + count) // ROW_STEP) * ROW_STEP
            length = min(length, model.limit or length) if model.is_fixed else before
            cache = self._cache_after(machine, empty_cache(model, length), 0, before)
            self._take(machine, answer)
            for number in range(1, count):
                self._progress.report(number / count, f"token {number + 1} of {count}")
                token = np.array([[answer.tokens[-1]]])
                rows = length if model.is_fixed else before + 1
                inputs = {**step_inputs(model, token, before, rows), **cache}
                machine = self._step(path, inputs, is_kept=model.is_fixed)
                answer.decode.append(step_of(machine))
                answer.machines["decode"] = (machine, self._target)
                cache = self._cache_after(machine, cache, before, 1)
                self._take(machine, answer)
                before += 1
        answer.rows = length if model.is_fixed else before
        answer.program = machine.program
        return answer

    def _step(self, path: Path, inputs: Arrays, is_kept: bool) -> Machine:
        """A finished machine. is_kept  whether its program serves the next steps too."""
        if is_kept and self._kept is not None and isinstance(self._target, Feeds):
            spec, program = self._kept
            program = self._target.feed(spec, program, inputs)
        else:
            request: LoadRequest = replace(self._options, inputs=inputs).request(path)
            spec, program = self._target.load(request, NoProgress())
            is_kept = is_kept and not is_of_one_run(program.graph.assumptions)
            self._kept = (spec, program) if is_kept else None
        machine = self._target.build(spec, program)
        self._target.warm_up(self._progress)
        session = Session(machine, None, _CHECKPOINT_BYTES)
        self._on_session(session)
        stop = session.run()
        if not session.is_finished:
            if stop.kind == StopKind.INTERRUPTED:
                raise KeyboardInterrupt
            raise TargetError(
                f"the run of a step stopped: {stop.kind} at cycle {stop.cycle} {stop.detail}".strip()
            )
        if isinstance(machine, HasHazards):
            for hazard in machine.hazards():
                if hazard.kind == HOST_OPERATOR:
                    raise TargetError(hazard.text)
        return machine

    def _result(self, machine: Machine, name: str) -> np.ndarray:
        graph = machine.program.graph
        for tensor in graph.outputs:
            if graph.tensors[tensor].name == name:
                values = machine.tensor(tensor)
                if values is not None:
                    return values
        raise TargetError(f"{name}: the machine has no values of it")

    def _cache_after(self, machine: Machine, cache: Arrays, before: int, new: int) -> Arrays:
        """The cache with the new rows behind `before`; what a result holds beside them is not looked at."""
        found: Arrays = {}
        for each in self.model.caches:
            rows = self._result(machine, each.present)
            if not self.model.is_fixed:
                found[each.past] = np.asarray(rows).astype(each.dtype)
                continue
            whole = cache[each.past].copy()
            start = 0 if rows.shape[2] == new else before
            whole[:, :, before : before + new] = rows[:, :, start : start + new]
            found[each.past] = whole
        return found

    def _take(self, machine: Machine, answer: Answer) -> None:
        """The next token: the largest logit of the last row."""
        logits = np.asarray(self._result(machine, self.model.logits))[0, -1].astype(np.float64)
        if not np.isfinite(logits).all():
            raise TargetError(f"token {len(answer.tokens) + 1}: {self.model.logits} are not finite")
        answer.tokens.append(int(logits.argmax()))
        answer.gaps.append(gap_of(logits))


def gap_of(logits: np.ndarray) -> float:
    """The best logit less the second one, as a share of the largest magnitude."""
    if logits.size < 2:
        return 1.0
    second, best = np.partition(logits, -2)[-2:]
    return float((best - second) / max(float(np.abs(logits).max()), 1e-30))
