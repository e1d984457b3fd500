"""Compiles the kernels ahead of the first run, or loads them from the cache."""

from functools import cache

from npuviz.base.progress import Progress
from npuviz.sim.parts.bits_kernels import light_optimisation
from npuviz.sim.stop import NO_STOPS
from npuviz.targets.systolic.compiler.builder import ProgramBuilder
from npuviz.targets.systolic.machine.engine import Engine
from npuviz.targets.systolic.spec import make_spec


def warm_up(progress: Progress) -> None:
    """Run a program of one empty tile."""
    progress.report(-1.0, "compiling kernels (first run only)")
    compile_kernels("")


@cache
def compile_kernels(network: str) -> None:
    """Compile the kernels of machines with a flit-level network or without, or load them from the cache."""
    spec, _ = make_spec("edge-8x8", None, {"network": network} if network else {})
    builder = ProgramBuilder()
    builder.add_skip_layer("warm-up")
    with light_optimisation():
        Engine(spec, builder.finish()).advance(1 << 40, NO_STOPS, None)
