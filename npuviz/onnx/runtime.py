"""Imports ONNX Runtime without telemetry: nothing is sent, and no device id is written to the user's
cache."""

import importlib
import os
from typing import Any

# Must be set before the library is loaded, since loading already writes the device id;
# `disable_telemetry_events` comes too late for that. The first name is that of 1.31, the second that of
# later versions (microsoft/onnxruntime #29843).
for _name in ("ORT_DISABLE_TELEMETRY", "ORT_TELEMETRY_DISABLED"):
    os.environ.setdefault(_name, "1")

import onnxruntime  # noqa: E402  (after the names above are set)

onnxruntime.disable_telemetry_events()


def operator_schemas() -> list[Any]:
    """Return the schemas of all operators of the runtime; they have the fields of onnx.defs.OpSchema."""
    state = importlib.import_module("onnxruntime.capi.onnxruntime_pybind11_state")
    return state.get_all_operator_schema()


__all__ = ["onnxruntime", "operator_schemas"]
