"""Stand-in for torch_xla, used where it is not installed: the device is the host, so that nothing waits."""

from typing import NoReturn

from npuviz.targets.neuroncore.nki.host_device import host_device, ignore

device = host_device
sync = ignore


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(f"torch_xla.{name} is not part of npuviz's stand-in, which has one device, the host")
