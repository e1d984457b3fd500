"""Runs a prompt and then token by token on a simulated machine, with the KV cache kept between the steps.

A model whose reads of the cache take the length in use as an input is compiled once for all steps, with a
cache as long as the whole answer. Any other model is compiled again in each step for the current length; one
that keeps nothing between steps reads the whole text again in each.
"""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from npuviz.base.errors import TargetError, UsageError
from npuviz.base.progress import NoProgress, Progress
from npuviz.debug.session import Session
from npuviz.onnx.draft import is_of_one_run
from npuviz.onnx.language.model import LanguageModel, read_language_model
from npuviz.program.program import Program
from npuviz.sim.machine import HOST_OPERATOR, HasHazards, Machine
from npuviz.sim.stop import StopKind
from npuviz.sim.target import Feeds, LoadRequest, Target
from npuviz.workbench.choosing import choose_target
from npuviz.workbench.language.files import (
    Arrays,
    cache_file,
    first_states,
    last_row,
    next_states,
    next_tokens,
    step_inputs,
)
from npuviz.workbench.language.phases import Step, step_of
from npuviz.workbench.opening import OpenOptions

ROW_STEP = 16
"""The length of a cache that all steps share is a multiple of this."""
MOST_TOKENS = 4096
_CHECKPOINT_BYTES = 1 << 20

OnSession = Callable[[Session], None]
OnLogits = Callable[[np.ndarray], None]


@dataclass
class Answer:
    """Result of decoding.

    prompt    (1, tokens);  tokens  the new ones
    rows      of the cache in the last step;  states  after it;  program  of the last step
    machines  phase ("prefill", "decode") -> machine and target of its last step
    """

    model: LanguageModel
    prompt: np.ndarray
    rows: int = 0
    tokens: list[int] = field(default_factory=list[int])
    prefill: list[Step] = field(default_factory=list[Step])
    decode: list[Step] = field(default_factory=list[Step])
    states: Arrays = field(default_factory=dict[str, np.ndarray])
    program: Program | None = None
    machines: dict[str, tuple[Machine, Target]] = field(default_factory=dict[str, tuple[Machine, Target]])


def read_prompt(model: LanguageModel, values: np.ndarray, count: int) -> np.ndarray:
    """Return a prompt as (1, tokens) int64. Raises UsageError for one that the model cannot take, or a number
    of new tokens that is not possible behind it."""
    if not 1 <= count <= MOST_TOKENS:
        raise UsageError(f"--decode {count}: expected 1 to {MOST_TOKENS} tokens")
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


def read_given(model: LanguageModel, inputs: Mapping[str, np.ndarray]) -> Arrays:
    """Return the inputs that the user gave, for all steps. Raises UsageError where one is missing, or where
    npuviz makes it."""
    states = {each.past for each in model.states if not each.grows}
    for name in inputs:
        if name in model.roles or (name not in states and name not in model.given):
            known = ", ".join([*model.given, *sorted(states)]) or "none"
            raise UsageError(
                f"--input {name}: --decode makes tokens, masks, positions and caches itself; "
                f"inputs that can be given: {known}"
            )
    missing = [name for name in model.given if name not in inputs]
    if missing:
        raise UsageError(
            f"--decode {model.path}: input {missing[0]} is none of tokens, masks, positions or caches: "
            f"give its values with --input {missing[0]}=FILE.npy"
        )
    return dict(inputs)


class Decoder:
    """Runs the steps of a language model on a target."""

    def __init__(self, path: Path, options: OpenOptions, progress: Progress, on_session: OnSession) -> None:
        self.model = read_language_model(path)
        self._options = options
        self._progress = progress
        self._on_session = on_session
        self._on_logits: OnLogits = lambda _: None
        self.given = read_given(self.model, options.inputs)
        self._target = choose_target(path, options.target, options.preset)
        self._kept: tuple[Any, Program] | None = None

    def run(self, prompt: np.ndarray, count: int, on_logits: OnLogits) -> Answer:
        """Run a prompt that was read in one step, then token by token until there are `count` new tokens.

        on_logits  is called with the logits of the last token, (vocabulary,), after each step
        Raises NpuvizError.
        """
        model = self.model
        answer = Answer(model, prompt)
        self._on_logits = on_logits
        given = self.given
        with cache_file(model) if model.is_fixed else nullcontext(model.path) as path:
            tokens, before, length = answer.prompt, 0, answer.prompt.shape[1]
            states = first_states(model, 0, given)
            for number in range(count):
                new = tokens.shape[1]
                inputs = {**given, **step_inputs(model, tokens, before, length), **states}
                machine = self._step(path, inputs, is_kept=model.is_fixed and number > 0)
                (answer.decode if number else answer.prefill).append(step_of(machine))
                answer.machines["decode" if number else "prefill"] = (machine, self._target)
                answer.program = machine.program
                if number == 0 and model.is_fixed:
                    length = -(-(length + count) // ROW_STEP) * ROW_STEP
                    length = min(length, model.limit or length)
                    states = first_states(model, length, given)
                states = self._states_after(machine, states, before, new)
                self._take(machine, answer)
                answer.rows = length
                tokens, before = next_tokens(model, tokens, answer.tokens[-1], before + new)
                length = length if model.is_fixed else before + tokens.shape[1]
                self._progress.report((number + 1) / count, f"token {number + 1} of {count}")
        answer.states = states
        return answer

    def _step(self, path: Path, inputs: Arrays, is_kept: bool) -> Machine:
        """Run one step to its end and return the machine. is_kept  whether later steps may use its program
        again"""
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

    def _states_after(self, machine: Machine, states: Arrays, before: int, new: int) -> Arrays:
        """Return the states after a step of `new` tokens.

        Where all steps share a cache, the new rows lie behind its first `before` rows: a result with exactly
        `new` rows holds them alone, a longer one holds them from row `before`.
        """
        results = {each.past: np.asarray(self._result(machine, each.present)) for each in self.model.states}
        found = next_states(self.model, states, results, before == 0)
        for each in self.model.states if self.model.is_fixed else ():
            if not each.grows:
                continue
            rows = np.moveaxis(results[each.past], each.axis, 0)
            whole = states[each.past].copy()
            start = 0 if len(rows) == new else before
            np.moveaxis(whole, each.axis, 0)[before : before + new] = rows[start : start + new]
            found[each.past] = whole
        return found

    def _take(self, machine: Machine, answer: Answer) -> None:
        """Append the next token to the answer: the one with the largest logit in the last row."""
        logits = last_row(self._result(machine, self.model.logits))
        if not np.isfinite(logits).all():
            raise TargetError(f"token {len(answer.tokens) + 1}: {self.model.logits} are not finite")
        answer.tokens.append(int(logits.argmax()))
        self._on_logits(logits)
