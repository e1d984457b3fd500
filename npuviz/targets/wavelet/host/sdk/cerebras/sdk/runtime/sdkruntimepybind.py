"""The runtime's names."""

from npuviz.targets.wavelet.host.platform import (
    SdkTarget,
    SimfabConfig,
    get_platform,
    get_simulator,
    get_system,
)
from npuviz.targets.wavelet.host.runtime import SdkRuntime, Task
from npuviz.targets.wavelet.host.transfers import MemcpyDataType, MemcpyOrder

__all__ = [
    "MemcpyDataType",
    "MemcpyOrder",
    "SdkRuntime",
    "SdkTarget",
    "SimfabConfig",
    "Task",
    "get_platform",
    "get_simulator",
    "get_system",
]
