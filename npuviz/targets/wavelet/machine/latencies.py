"""List the latencies that a seed changes, and their ranges."""

from npuviz.program.program import Program
from npuviz.sim.latencies import Varied
from npuviz.targets.wavelet.kernels import jitter

NOT_VARIED = (
    "elements, scalar instructions and branches: their rules",
    "transfers of the host, and when it gives its commands",
)
_NUM_LINKS, _NUM_THREADS = 4, 8


def varied(program: Program) -> tuple[Varied, ...]:
    """Return the latencies of a program's run that a seed changes."""
    wafer = program.payload.wafer
    count = int((wafer.program_of >= 0).sum())
    return (
        Varied("links, each word", _NUM_LINKS * count, 0, jitter.MORE_LINK, is_factor=False),
        Varied("ramps between routers and processors, each word", 2 * count, 0, jitter.MORE_RAMP, False),
        Varied("begins of tasks", count, 0, jitter.MORE_TASK, is_factor=False),
        Varied("begins of operations on microthreads", _NUM_THREADS * count, 0, jitter.MORE_START, False),
        Varied("launches, each PE", count, 0, jitter.MORE_LAUNCH, is_factor=False),
    )
