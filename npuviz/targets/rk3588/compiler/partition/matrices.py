"""Decide when a product with a matrix over all elements of a tensor is worth it."""

from npuviz.targets.rk3588.spec import RknnSpec
from npuviz.targets.rk3588.task.host_cost import change_cycles


def matrix_fits(spec: RknnSpec, taken: int, given: int) -> bool:
    """Return whether reading a matrix of fp16 over all elements takes less time than going to the Host and
    back.

    If the Host works before or after, the partition may still leave the product there.

    taken, given  elements, as memory holds them
    """
    return matrix_cycles(spec, taken, given) < change_cycles(spec)


def matrix_cycles(spec: RknnSpec, taken: int, given: int) -> float:
    """Return how long reading a matrix of fp16 over all elements takes. taken, given  elements, as memory
    holds them"""
    return 2 * taken * given / spec.bytes_per_cycle
