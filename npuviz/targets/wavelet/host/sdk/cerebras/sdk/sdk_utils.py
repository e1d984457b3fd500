"""Export helpers of host programs under the vendor's names."""

from npuviz.targets.wavelet.host.sdk_utils import calculate_cycles, input_array_to_u32, memcpy_view

__all__ = ["calculate_cycles", "input_array_to_u32", "memcpy_view"]
