"""Puts a hot spot on the plate, lets it spread, and compares with numpy."""

import argparse
import json
from pathlib import Path

import numpy as np
from cerebras.sdk.runtime.sdkruntimepybind import (  # pyright: ignore[reportMissingImports]
    MemcpyDataType,
    MemcpyOrder,
    SdkRuntime,
)

STEPS = 4
RATE = np.float32(0.125)


def spread(heat: np.ndarray) -> np.ndarray:
    """One step in numpy: `heat` is (rows, columns, cells); beyond the border it is zero."""
    padded = np.pad(heat, ((1, 1), (1, 1), (0, 0)))
    neighbours = padded[1:-1, :-2] + padded[1:-1, 2:] + padded[:-2, 1:-1] + padded[2:, 1:-1]
    return heat + RATE * (neighbours - 4 * heat)


def main() -> None:
    """Copy in, launch, copy out, check."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--name", help="folder of the compiled program")
    name = parser.parse_args().name
    params = json.loads((Path(name) / "out.json").read_text())["params"]
    width, height, cells = (int(params[key]) for key in ("width", "height", "cells"))

    heat = np.zeros((height, width, cells), np.float32)
    heat[height // 2, width // 2] = np.linspace(1, 100, cells, dtype=np.float32)
    heat[0, 0] = 10

    runner = SdkRuntime(name)
    symbol = runner.get_id("heat")
    runner.load()
    runner.run()
    copy = {
        "streaming": False,
        "data_type": MemcpyDataType.MEMCPY_32BIT,
        "order": MemcpyOrder.ROW_MAJOR,
        "nonblock": False,
    }
    runner.memcpy_h2d(symbol, heat.ravel(), 0, 0, width, height, cells, **copy)
    runner.launch("spread", np.uint16(STEPS), RATE, nonblock=False)
    result = np.zeros(heat.size, np.float32)
    runner.memcpy_d2h(result, symbol, 0, 0, width, height, cells, **copy)
    runner.stop()

    for _ in range(STEPS):
        heat = spread(heat)
    np.testing.assert_allclose(result.reshape(heat.shape), heat, rtol=1e-5, atol=1e-5)
    print("SUCCESS!")


if __name__ == "__main__":
    main()
