"""The configuration of a chip."""

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Interval

from npuviz.sim.settings import SpecSettings

Count = Annotated[int, Interval(ge=1, le=4096)]


@dataclass(frozen=True)
class ToySpec:
    """Sizes and latencies. Every figure is invented.

    block    elements that one instruction works on
    slots    blocks of both operands and the result that the scratchpad holds
    queue    entries of a unit's queue
    latency  cycles until the first byte of DRAM is there; then `bytes_per_cycle` of them
    """

    block: Count = 16
    slots: Annotated[int, Interval(ge=1, le=64)] = 3
    queue: Annotated[int, Interval(ge=1, le=8)] = 2
    latency: Count = 8
    bytes_per_cycle: Count = 16
    hz: int = 1_000_000_000

    @property
    def block_bytes(self) -> int:
        """Bytes of a block."""
        return 4 * self.block


SETTINGS = SpecSettings(ToySpec, {"small": {}, "wide": {"block": 64, "bytes_per_cycle": 64}}, ("hz",))
