"""How long the rough run takes a transfer to be."""

from typing import cast

from npuviz.targets.neuroncore.compiler.streams.emitter import Emitter
from npuviz.targets.neuroncore.compiler.streams.schedule import transfer_cycles
from npuviz.targets.neuroncore.spec import make_spec
from npuviz.targets.neuroncore.tables import SBUF, Access, Descriptor, QueueSet, Transfer


class OneTransfer:
    """An emitter with a single load of some partitions, of so many bytes each."""

    def __init__(self, partitions: int, num_bytes: int, pitch: int) -> None:
        to = Access(SBUF, 0, (1, pitch), (num_bytes, partitions))
        source = Access(0, 0, (1, num_bytes), (num_bytes, partitions))
        self.transfers = [Transfer(0, 0, 0, (Descriptor("copy", to, (source,)),))]
        self.queue_sets = [QueueSet(0, "q", 0, 4, 16, 9)]


def test_a_transfer_takes_as_long_as_the_engine_that_has_most_to_do() -> None:
    spec = make_spec("trn2")[0]

    def cycles(partitions: int, num_bytes: int) -> int:
        emitter = cast(Emitter, OneTransfer(partitions, num_bytes, spec.sbuf_partition_bytes))
        return transfer_cycles(emitter, spec)[0]

    whole = cycles(128, 4096)
    assert abs(cycles(64, 4096) - whole) <= 1  # half of the bytes, half of the engines
    assert abs(cycles(8, 4096) - whole) <= 1  # one engine
    assert abs(cycles(64, 8192) - 2 * whole) <= 2
