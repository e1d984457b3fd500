"""The request schedulers `simple` and `iter`, which choose the requests of a trace that run together.

Ref: systolic.md section 14. Ticks are core cycles; the scheduler's own count is one ahead of the tick. An
iteration is formed in the tick after the one in which the iteration before it ended. `simple` admits when
no request is active, `iter` whenever there is room.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from npuviz.formats.onnxim.workloads import TraceRow

SCHEDULERS = ("simple", "iter")


@dataclass
class Request:
    """A request in flight.

    length      tokens in its KV cache
    caches      K and V cache of each layer: addresses, or other data of the writer
    iterations  numbers of the iterations that have served it
    is_exact    whether the prompt is counted exactly; ONNXim counts one token more (flaw F22)
    """

    number: int
    row: TraceRow
    is_exact: bool = False
    length: int = 0
    caches: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    iterations: list[int] = field(default_factory=list[int])

    def __post_init__(self) -> None:
        self.length = self.row.cached_length

    @property
    def is_prompt(self) -> bool:
        """Whether its prompt is still to be handled."""
        return not self.iterations

    @property
    def tokens(self) -> int:
        """Tokens that the next iteration handles for it."""
        return self.row.prompt_length if self.is_prompt else 1

    @property
    def final_length(self) -> int:
        """Length at which it is complete, its last token included."""
        return self.row.cached_length + self.row.prompt_length + self.row.target_length

    @property
    def is_complete(self) -> bool:
        """Whether it needs no further iteration: the last token generated is not fed back."""
        return self.length + (1 if self.is_exact else 0) >= self.final_length

    def end_iteration(self, number: int) -> None:
        """Count iteration `number`: add its tokens to the length."""
        self.length += self.tokens + (1 if self.is_prompt and not self.is_exact else 0)
        self.iterations.append(number)


class Admission:
    """The queue of a trace and the requests in flight.

    max_batch  0: no limit
    is_exact   whether `iter` keeps to max_batch; ONNXim admits one request more (flaw F22)
    """

    def __init__(self, trace: Sequence[TraceRow], scheduler: str, max_batch: int, is_exact: bool) -> None:
        self.waiting: deque[Request] = deque(
            Request(number, row, is_exact) for number, row in enumerate(trace)
        )
        self.active: list[Request] = []
        self._is_iterative = scheduler == "iter"
        self._limit = max_batch or len(trace) + 1
        self._is_limited = max_batch > 0
        self._is_exact = is_exact
        self._tick = 0
        self._was_closed = False

    @property
    def _may_admit(self) -> bool:
        if not self._is_iterative:
            return not self.active
        # Flaw F22: ONNXim compares with <=.
        return len(self.active) < self._limit + (0 if self._is_exact else 1)

    def depends_on_time(self, tick: int) -> bool:
        """Return whether admission at this tick and at a later one may differ."""
        if not self.waiting or not self._may_admit:
            return False
        room = self._limit + 1 - (len(self.active) if self._is_iterative else 0)
        candidates = list(self.waiting)[: max(1, room)]
        # Two ticks of margin: `iter` may need one more tick for the last one.
        return any(request.row.arrival > tick - 1 for request in candidates)

    def admit(self, tick: int) -> list[Request]:
        """Admit the requests that arrive up to a tick, tick by tick; returns them in order."""
        admitted: list[Request] = []
        if self._was_closed:
            # Nobody was let in while the iteration ran that ended in the tick before.
            self._tick, self._was_closed = max(self._tick, tick), False
        while self.waiting and self._may_admit:
            now = max(self._tick, self.waiting[0].row.arrival - 1)
            if now > tick:
                break
            while self.waiting and self.waiting[0].row.arrival <= now + 1:
                admitted.append(self.waiting.popleft())
                self.active.append(admitted[-1])
                if self._is_limited and len(self.active) >= self._limit:
                    break
            self._tick = now + 1
        self._tick = max(self._tick, tick + 1)
        return admitted

    def next_arrival(self) -> int:
        """Return the tick in which the next waiting request can be admitted at the earliest."""
        return max(0, self.waiting[0].row.arrival - 1)

    def batch(self) -> list[Request]:
        """Return the requests of the iteration that is formed now, by number."""
        return sorted(self.active, key=lambda request: request.number)[: self._limit]

    def end_iteration(self, batch: Sequence[Request], number: int) -> None:
        """End iteration `number` of these requests, and remove complete ones."""
        self._was_closed = not self._may_admit
        for request in batch:
            request.end_iteration(number)
        self.active = [request for request in self.active if not request.is_complete]
