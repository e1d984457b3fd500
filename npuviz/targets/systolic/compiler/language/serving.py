"""Turns a request trace into launches, one per iteration; an `IterationWriter` writes their layers.

Which requests share an iteration can depend on how long the iterations before it take. Where it does, the
program so far is run once ahead, at load (`rehearsal`), so that the finished program is fixed.
"""

from collections.abc import Sequence
from typing import Protocol

from npuviz.base.errors import DoesNotFit, TargetError
from npuviz.base.progress import Progress
from npuviz.targets.systolic.compiler.builder import ProgramBuilder
from npuviz.targets.systolic.compiler.language.admission import Admission, Request
from npuviz.targets.systolic.compiler.language.memory import LanguageMemory
from npuviz.targets.systolic.spec import SystolicSpec
from npuviz.targets.systolic.tables import RequestPlan

MAX_ITERATIONS = 1 << 15


class IterationWriter(Protocol):
    """Writes the layers of iterations into a builder."""

    builder: ProgramBuilder

    def admit(self, request: Request) -> None:
        """Give a new request its KV caches. Raises DoesNotFit."""
        ...

    def write(self, batch: Sequence[Request], number: int) -> None:
        """Write the layers of one iteration; its launch is open."""
        ...


def serve(
    admission: Admission,
    writer: IterationWriter,
    spec: SystolicSpec,
    memory: LanguageMemory,
    progress: Progress,
) -> tuple[RequestPlan, ...]:
    """Write all iterations; returns the requests with the launches that serve them, in trace order.

    memory  checks what must fit; the least cycles of an iteration decide what is known without a rehearsal
    """
    from npuviz.targets.systolic.machine.rehearsal import Rehearsal

    rehearsal = Rehearsal(spec)
    finished: list[Request] = []
    free, is_known, number = 0, True, 0
    while admission.active or admission.waiting:
        if not is_known and admission.depends_on_time(free):
            if spec.config.scheduler != "simple":
                raise TargetError(
                    "which requests share a batch depends on run time here; "
                    "use --set scheduler=simple or max_batch_size 1 in the list file"
                )
            progress.report(-1.0, f"rehearsing iteration {number}")
            free, is_known = rehearsal.end_of(writer.builder.finish()) + 1, True
        earliest = 0
        admitted = admission.admit(free)
        if not admission.active:
            earliest = free = max(free, admission.next_arrival())
            admitted = admission.admit(free)
        for request in admitted:
            memory.check_length(request)
            writer.admit(request)
        if number == MAX_ITERATIONS:
            raise DoesNotFit(f"the trace needs more than {MAX_ITERATIONS} iterations")
        batch = admission.batch()
        memory.check(admission.active, batch)
        writer.builder.begin_launch(earliest=earliest, delay=1 if number else 0)
        writer.write(batch, number)
        admission.end_iteration(batch, number)
        finished += [request for request in batch if request.is_complete]
        free, is_known, number = free + memory.least_cycles(), False, number + 1
    return tuple(_plan(request) for request in sorted(finished, key=lambda request: request.number))


def _plan(request: Request) -> RequestPlan:
    row = request.row
    return RequestPlan(
        f"request {request.number}",
        max(0, row.arrival - 1),
        tuple(request.iterations),
        prompt=row.prompt_length,
        output=row.target_length,
    )
