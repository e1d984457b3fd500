"""Hardware descriptions that need no file, in the form of ONNXim's newer JSON.

Ref: PSAL-POSTECH/ONNXim, commit a1e8629, configs/. The TPUv4-like chip is
systolic_ws_128x128_c4_simple_noc_tpuv4.json, the 8x8 one systolic_ws_8x8_c1_simple_noc_transformer.json
(and its four-core twin), all with dram_type set to simple. That these sizes stand for a TPUv4 is
ONNXim's claim.
"""

from typing import Any

_CORE = {"core_type": "systolic_ws", "sram_width": 32}

_CHIP = {
    "core_freq": 1000,
    "dram_type": "simple",
    "dram_req_size": 32,
    "dram_latency": 10,
    "icnt_type": "simple",
    "icnt_latency": 1,
    "layout": "NHWC",
    "scheduler": "simple",
}

_TPUV4_CORE = {
    **_CORE,
    "core_width": 128,
    "core_height": 128,
    "spad_size": 32768,
    "accum_spad_size": 4096,
    "vector_process_bit": 65536,
}

_TPUV4_CHIP = {
    **_CHIP,
    "dram_freq": 1200,
    "dram_channels": 16,
    "dram_size": 16,
    "icnt_freq": 1000,
    "icnt_injection_ports_per_core": 16,
    "precision": 2,
}

_EDGE_CORE = {
    **_CORE,
    "core_width": 8,
    "core_height": 8,
    "spad_size": 64,
    "accum_spad_size": 16,
    "vector_process_bit": 2048,
}

_EDGE_CHIP = {
    **_CHIP,
    "dram_freq": 400,
    "dram_channels": 2,
    "icnt_freq": 2000,
    "icnt_injection_ports_per_core": 1,
    "precision": 1,
}


def _chip(chip: dict[str, Any], core: dict[str, Any], num_cores: int) -> dict[str, Any]:
    cores = {f"core_{index}": core for index in range(num_cores)}
    return {"num_cores": num_cores, "core_config": cores, **chip}


PRESETS: dict[str, tuple[str, dict[str, Any]]] = {
    "tpuv4": ("4 cores of 128x128 at 1 GHz, 16 channels at 1.2 GHz", _chip(_TPUV4_CHIP, _TPUV4_CORE, 4)),
    "tpuv4-1core": ("one such core with the same memory", _chip(_TPUV4_CHIP, _TPUV4_CORE, 1)),
    "edge-8x8": ("one core of 8x8 at 1 GHz, 2 channels at 400 MHz", _chip(_EDGE_CHIP, _EDGE_CORE, 1)),
    "edge-8x8-c4": (
        "4 such cores with the same memory, 2-byte elements",
        _chip({**_EDGE_CHIP, "precision": 2}, _EDGE_CORE, 4),
    ),
}
"""Preset name -> (one-line description, hardware description); the first is the default."""
