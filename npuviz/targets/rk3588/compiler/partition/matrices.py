"""When a product with a matrix over all elements of a tensor is worth it."""

from npuviz.targets.rk3588.spec import RknnSpec


def matrix_fits(spec: RknnSpec, taken: int, given: int) -> bool:
    """Whether a matrix of fp16 over all elements is read in less than half the time that reaching the Host
    takes: where the Host works before or behind, it is cheaper. taken, given  elements, as memory holds
    them"""
    return matrix_cycles(spec, taken, given) < spec.to_cycles(spec.host_call_ns) / 2


def matrix_cycles(spec: RknnSpec, taken: int, given: int) -> float:
    """How long a matrix of fp16 over all elements is read. taken, given  elements, as memory holds them"""
    return 2 * taken * given / spec.bytes_per_cycle
