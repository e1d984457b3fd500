"""Gives every PE a number and checks that all of a row hold the row's sum."""

import argparse
import json
from pathlib import Path

import numpy as np
from cerebras.sdk.runtime.sdkruntimepybind import (  # pyright: ignore[reportMissingImports]
    MemcpyDataType,
    MemcpyOrder,
    SdkRuntime,
)


def main() -> None:
    """Copy in, launch, copy out, check."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--name", help="folder of the compiled program")
    name = parser.parse_args().name
    params = json.loads((Path(name) / "out.json").read_text())["params"]
    width, height = int(params["width"]), int(params["height"])

    runner = SdkRuntime(name)
    value, result = runner.get_id("value"), runner.get_id("result")
    runner.load()
    runner.run()
    copy = {
        "streaming": False,
        "data_type": MemcpyDataType.MEMCPY_32BIT,
        "order": MemcpyOrder.ROW_MAJOR,
        "nonblock": False,
    }
    values = np.arange(width * height, dtype=np.float32)
    runner.memcpy_h2d(value, values, 0, 0, width, height, 1, **copy)
    runner.launch("sum", nonblock=False)
    sums = np.zeros(width * height, np.float32)
    runner.memcpy_d2h(sums, result, 0, 0, width, height, 1, **copy)
    runner.stop()

    rows = values.reshape(height, width).sum(axis=1, keepdims=True)
    np.testing.assert_array_equal(sums.reshape(height, width), np.repeat(rows, width, axis=1))
    print("SUCCESS!")


if __name__ == "__main__":
    main()
