"""Compute the cycles that a seed adds to latencies: times that another run of the same wafer might take.

The added cycles depend on the seed, the place and, for half of the seeds, the cycle; so they are the same in
every run with that seed, however the run is cut into calls. Without a seed nothing is added.
"""

from npuviz.sim.parts.bits_kernels import inlined, kernel

# Assumed: all bounds, in cycles. No source says how much these times scatter.
MORE_LINK, MORE_RAMP, MORE_TASK, MORE_START, MORE_LAUNCH = 8, 8, 16, 16, 200
UNIT_LINK, UNIT_RAMP, UNIT_QUEUE, UNIT_TASK, UNIT_START, UNIT_LAUNCH = 0, 8, 9, 10, 11, 27
UNITS = 32
"""Places of a node whose times vary: links add their port to UNIT_LINK, threads a number to UNIT_START."""


@kernel
def _drawn(seed, unit, moment):
    """Return 31 pseudo-random bits."""
    # Products stay below 2 ** 63: kernels and their plain twins agree.
    word = (seed * 0x3C6EF35F) ^ (unit * 0x2C1B3C6D) ^ ((moment & 0xFFFF_FFFF) * 0x297A2D39)
    word &= 0xFFFF_FFFF
    for _ in range(3):
        word ^= word >> 15
        word = (word * 0x2C1B3C6D + 0x165667B1) & 0xFFFF_FFFF
    return (word ^ (word >> 16)) & 0x7FFF_FFFF


@kernel
def _added(seed, unit, moment, bound):
    kind = seed & 3
    if kind == 3:  # each place is as fast or as slow as may be
        return bound * (_drawn(seed, unit, 0) & 1)
    if kind == 1:  # each place has one constant time
        return _drawn(seed, unit, 0) % (bound + 1)
    if kind == 2:  # a mean of both
        return (_drawn(seed, unit, 0) % (bound + 1) + _drawn(seed, unit, moment) % (bound + 1)) // 2
    return _drawn(seed, unit, moment) % (bound + 1)


@inlined
def more_cycles(machine, node, unit, bound):
    """Return the cycles to add now to a time at a place (UNIT_) of a node, at most `bound`."""
    seed = machine.program.seed
    if seed == 0:
        return 0
    return _added(seed, node * UNITS + unit, machine.wafer.now + 1, bound)
