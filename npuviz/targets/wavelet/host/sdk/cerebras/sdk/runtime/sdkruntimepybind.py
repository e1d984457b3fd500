"""Export the runtime under the vendor's names."""

from npuviz.targets.wavelet.host.layout.routes import (
    Color,
    Edge,
    Route,
    RoutingPosition,
    get_edge_routing,
)
from npuviz.targets.wavelet.host.layout.sdk_layout import CodeRegion, SdkLayout
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
    "CodeRegion",
    "Color",
    "Edge",
    "MemcpyDataType",
    "MemcpyOrder",
    "Route",
    "RoutingPosition",
    "SdkLayout",
    "SdkRuntime",
    "SdkTarget",
    "SimfabConfig",
    "Task",
    "get_edge_routing",
    "get_platform",
    "get_simulator",
    "get_system",
]
