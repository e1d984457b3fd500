"""DRAM descriptions: what is read, what is refused, damaged files."""

from pathlib import Path

import numpy as np
import pytest

from npuviz.base.errors import FormatError
from npuviz.formats.onnxim.ramulator import read_ramulator

SHIPPED = Path(__file__).parents[2] / "data" / "onnxim" / "configs" / "ramulator2_configs"

FULL = """
MemorySystem:
  DRAM:
    impl: LPDDR5
    org: {preset: LPDDR5_8Gb_x16, rank: 2, channel: 4, subarray: 8}
    timing: {rate: 6400, nRCD: 15, tRPpb: 18.0, nRTW: 3, nFOO: 1}
  Controller:
    Scheduler: {impl: FRFCFS}
    RefreshManager: {impl: AllBank}
    plugins: [x]
  AddrMapper: {impl: MOP4CLXOR}
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "dram.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_shipped_files() -> None:
    hbm, warnings = read_ramulator(SHIPPED / "HBM2.yaml")
    assert (hbm.standard, hbm.organization_preset, hbm.timing_preset) == ("HBM2", "HBM2_8Gb", "HBM2_2.5Gbps")
    assert (hbm.mapping, hbm.is_refreshed, warnings) == ("RoBaRaCoCh", True, ())
    ddr, _ = read_ramulator(SHIPPED / "DDR4.yaml")
    assert (ddr.standard, ddr.organization_preset, ddr.timing_preset) == (
        "DDR4",
        "DDR4_16Gb_x4",
        "DDR4_1600J",
    )


def test_all_that_is_read(tmp_path: Path) -> None:
    config, warnings = read_ramulator(write(tmp_path, FULL))
    assert config.organization == {"ranks": 2}
    assert config.timing == {"rate": 6400, "nRCD": 15, "tRP": 18.0}
    assert config.mapping == "MOP4CLXOR"
    told = "\n".join(warnings)
    for word in ("org.channel", "org.subarray", "timing.nRTW has no effect", "timing.nFOO", "plugins"):
        assert word in told


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "MemorySystem"),
        ("- 1", "mapping"),
        ("MemorySystem: 3", "MemorySystem"),
        ("MemorySystem: {}", "DRAM"),
        ("MemorySystem: {DRAM: {org: {}}}", "impl"),
        ("MemorySystem: {DRAM: {impl: [1]}}", "impl"),
        ("MemorySystem: {DRAM: {impl: DDR4, org: {rank: x}}}", "rank"),
        ("MemorySystem: {DRAM: {impl: DDR4, org: {rank: 1.5}}}", "rank"),
        ("MemorySystem: {DRAM: {impl: DDR4, timing: {nRCD: true}}}", "nRCD"),
        ("MemorySystem: {DRAM: {impl: DDR4, timing: {nRCD: .nan}}}", "nRCD"),
        ("MemorySystem: {DRAM: {impl: DDR4}, Controller: {Scheduler: {impl: FCFS}}}", "FRFCFS"),
        ("MemorySystem: {DRAM: {impl: DDR4}, Controller: {RefreshManager: {impl: X}}}", "AllBank"),
        ("MemorySystem: {DRAM: {impl: DDR4}}\nMemorySystem: {}", "twice"),
        ("MemorySystem: &a {DRAM: {impl: DDR4}}\nx: *a", "aliases"),
        ("MemorySystem: {DRAM: ", "YAML"),
        ("[" * 5000, "levels"),
        ("x: !!python/object/apply:os.system [ls]", "YAML"),
        ("x" * 70_000, "65536"),
    ],
)
def test_refused(tmp_path: Path, text: str, word: str) -> None:
    with pytest.raises(FormatError) as caught:
        read_ramulator(write(tmp_path, text))
    assert word in str(caught.value)
    assert "\n" not in str(caught.value)


def test_damage(tmp_path: Path) -> None:
    """Cut at every byte and with bytes flipped: a FormatError of one line, or a description."""
    data = (SHIPPED / "DDR4.yaml").read_bytes()
    random = np.random.default_rng(0)
    damaged = [data[:length] for length in range(len(data))]
    for _ in range(300):
        flipped = bytearray(data)
        flipped[int(random.integers(len(data)))] = int(random.integers(256))
        damaged.append(bytes(flipped))
    path = tmp_path / "damaged.yaml"
    told: list[str] = []
    for content in damaged:
        path.write_bytes(content)
        try:
            read_ramulator(path)
        except FormatError as error:
            told.append(str(error))
    assert len(told) > len(data) // 4
    assert not any("\n" in text for text in told)
