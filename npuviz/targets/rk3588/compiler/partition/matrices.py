"""When a product with a matrix over all elements of a tensor is worth it."""

from npuviz.targets.rk3588.spec import RknnSpec
from npuviz.targets.rk3588.task.host_cost import change_cycles


def matrix_fits(spec: RknnSpec, taken: int, given: int) -> bool:
    """Whether a matrix of fp16 over all elements is read in less time than the way to the Host and back
    takes; where the Host works before or behind, the partition may still leave it there. taken, given
    elements, as memory holds them"""
    return matrix_cycles(spec, taken, given) < change_cycles(spec)


def matrix_cycles(spec: RknnSpec, taken: int, given: int) -> float:
    """How long a matrix of fp16 over all elements is read. taken, given  elements, as memory holds them"""
    return 2 * taken * given / spec.bytes_per_cycle
