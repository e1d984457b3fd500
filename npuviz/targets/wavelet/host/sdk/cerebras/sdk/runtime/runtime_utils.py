"""Export helpers of host programs under their names in SDK 0.9 and before."""

from npuviz.targets.wavelet.host.port_maps import (
    convert_input_tensor,
    format_output_tensor,
    prepare_output_tensor,
)
from npuviz.targets.wavelet.host.sdk_utils import (
    calculate_cycles,
    input_array_to_u32,
    memcpy_view,
    output_array_from_u32,
)

__all__ = [
    "calculate_cycles",
    "convert_input_tensor",
    "format_output_tensor",
    "input_array_to_u32",
    "memcpy_view",
    "output_array_from_u32",
    "prepare_output_tensor",
]
