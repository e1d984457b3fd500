"""Stand-in for torch_xla.core.xla_model."""

from typing import NoReturn

from npuviz.targets.neuroncore.nki.host_device import first, host_device, ignore, one

xla_device = host_device
mark_step = wait_device_ops = rendezvous = set_rng_state = ignore
get_ordinal = get_local_ordinal = first
xrt_world_size = one
master_print = print


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(f"torch_xla.core.xla_model.{name} is not part of npuviz's stand-in")
