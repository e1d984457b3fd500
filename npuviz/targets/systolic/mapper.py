"""Searches tilings and core assignments: the best few of the estimate are simulated.

Every problem (equal layers are one) runs alone with each choice; then the whole model runs with the choices
of the estimate and with those of the search.
"""

from dataclasses import dataclass, replace

from npuviz.base.errors import TargetError
from npuviz.base.progress import Progress
from npuviz.program.graph import Graph
from npuviz.sim.stop import NO_STOPS
from npuviz.sim.target import MapResult, MapRow
from npuviz.targets.systolic.compiler.compile import LaunchPlan, compile_true
from npuviz.targets.systolic.compiler.tiling.choices import ASSIGNMENTS, Asked, Choice, Choices, ProblemKey
from npuviz.targets.systolic.kernels import records as sk
from npuviz.targets.systolic.machine.engine import LAST_CYCLE, Engine
from npuviz.targets.systolic.spec import SystolicSpec


@dataclass
class Mapper:
    """One search over a model on one chip in true mode.

    candidates  how many tilings are simulated per problem, each with both core assignments
    """

    graph: Graph
    spec: SystolicSpec
    candidates: int
    progress: Progress

    def search(self) -> tuple[MapResult, dict[ProblemKey, Choice]]:
        """Search all problems; returns the report, and the better choices if they make the model faster."""
        if self.spec.mode != "true":
            raise TargetError("tilings are searched in true mode; leave out --set mode=parity")
        default = Choices()
        before = self._cycles(default)
        rows: list[MapRow] = []
        found: dict[ProblemKey, Choice] = {}
        for done, (key, asked) in enumerate(default.asked.items()):
            self.progress.report(done / len(default.asked), f"mapping {self._name(asked)}")
            row, choice = self._best(key, asked)
            rows.append(row)
            if choice is not None:
                found[key] = choice
        after = self._cycles(Choices(found)) if found else before
        kept = found if after < before else {}
        return MapResult(tuple(rows), before, min(before, after)), kept

    def _name(self, asked: Asked) -> str:
        node = self.graph.nodes[asked.node]
        return node.name or node.op_type

    def _best(self, key: ProblemKey, asked: Asked) -> tuple[MapRow, Choice | None]:
        """Simulate a problem with each choice; returns its row, and the best choice, None if it is the
        default."""
        default = asked.candidates[0]
        results: dict[Choice, int] = {}
        for choice in self._to_try(asked):
            results[choice] = self._cycles(Choices({key: choice}), asked.node)
        best = min(results, key=lambda choice: results[choice])
        row = MapRow(
            operator=self._name(asked) + (f" (and {asked.times - 1} alike)" if asked.times > 1 else ""),
            default=_text(default),
            default_cycles=results[default],
            found=_text(best),
            found_cycles=results[best],
            tried=len(results),
        )
        return row, best if results[best] < results[default] else None

    def _to_try(self, asked: Asked) -> list[Choice]:
        tilings = asked.candidates[: self.candidates]
        return [replace(choice, assignment=way) for choice in tilings for way in ASSIGNMENTS]

    def _cycles(self, choices: Choices, node: int = -1) -> int:
        """Simulate the whole model, or one node alone, and return its cycles."""
        alone = [LaunchPlan([self.graph.nodes[node]])] if node >= 0 else []
        tables = compile_true(self.graph, self.spec, launches=alone, choices=choices).tables
        engine = Engine(self.spec, tables)
        while int(engine.state[sk.CHIP.status]) == sk.STATUS_RUNNING:
            engine.advance(min(LAST_CYCLE, int(engine.state[sk.CHIP.cycle]) + STRETCH), NO_STOPS, None)
            self.progress.report(-1.0, "mapping")
        if int(engine.state[sk.CHIP.status]) != sk.STATUS_FINISHED:
            raise TargetError("the chip stopped before the model was done; `npuviz run` says why")
        return int(engine.state[sk.CHIP.cycle])


STRETCH = 1 << 20
"""Cycles between two tests for an interruption."""


def _text(choice: Choice) -> str:
    return "x".join(str(size) for size in choice.sizes) + f" {choice.assignment}"
