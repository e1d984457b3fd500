"""Which requests of a trace run together under the `simple` request scheduler.

Ref: systolic.md section 14.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from npuviz.base.errors import TargetError
from npuviz.formats.onnxim_models import TraceRow


@dataclass
class Request:
    """A request in flight: its length so far, and the K and V cache addresses of each layer."""

    row: TraceRow
    length: int
    caches: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    is_prompt: bool = True

    @property
    def tokens(self) -> int:
        """Tokens that the next iteration handles for it."""
        return self.row.prompt_length if self.is_prompt else 1

    @property
    def final_length(self) -> int:
        """Length at which it is complete."""
        return self.row.cached_length + self.row.prompt_length + self.row.target_length

    @property
    def is_complete(self) -> bool:
        """Whether it needs no further iteration."""
        return self.length >= self.final_length

    def end_iteration(self) -> None:
        """Grow by what the iteration did. Flaw F22: the prompt counts one more."""
        self.length += self.row.prompt_length + 1 if self.is_prompt else 1
        self.is_prompt = False


def admit(
    trace: Sequence[TraceRow], max_batch_size: int, iteration_cycles: int
) -> Iterator[tuple[list[Request], int]]:
    """Sets of requests admitted together, and the tick at which they may start at the earliest.

    Requests are admitted when none is active. Who has arrived by then is known only where it does not
    depend on how long the requests before take; `iteration_cycles`, the time an iteration takes at
    least, is often enough to tell. Raises TargetError where it is not. `max_batch_size` 0: no limit.
    """
    limit = max_batch_size or len(trace)
    left = list(trace)
    ended, is_first = 0, True
    while left:
        # The scheduler's own count starts at 1.
        known = max(1, left[0].arrival, ended)
        group = [row for row in left if row.arrival <= known][:limit]
        left = left[len(group) :]
        if not is_first and len(group) < limit and left:
            raise TargetError(
                f"whether the request of core cycle {left[0].arrival} joins a batch depends on run "
                "time, which is not modelled yet; use max_batch_size 1 in the list file"
            )
        start = max(0, group[-1].arrival - 1)
        num_iterations = max(1, *(row.target_length for row in group))
        ended, is_first = max(ended, start) + num_iterations * iteration_cycles, False
        yield [Request(row, row.cached_length) for row in group], start
