"""The command-level DRAM kernel against the slow channel, on streams and devices of many kinds."""

import numpy as np
import pytest

from npuviz.sim.dram import records_kernels as ck
from npuviz.sim.dram.device import DramDevice, make_device, preset_device
from npuviz.sim.dram.presets import Organization
from npuviz.sim.dram.state_words import FRONT_LIMIT, CommandLayout
from tests.sim.dram.replay_kernels import replay
from tests.sim.dram.slow_channel import SlowChannel
from tests.sweeps import seeds

TWO_RANKS = Organization(2, 2, 2, 1 << 10, 256, 8, 64, 4096, 8)
DEVICES: dict[str, DramDevice] = {
    "HBM2": make_device("HBM2", "HBM2_8Gb", "HBM2_2.5Gbps", is_exact=True),
    "DDR4": make_device("DDR4", "DDR4_16Gb_x4", "DDR4_1600J"),
    "DDR4 often refreshed": make_device("DDR4", "DDR4_2Gb_x8", "DDR4_1600J", {"nREFI": 700, "nRFC": 90}),
    "two ranks": make_device("DDR4", TWO_RANKS, "DDR4_2400R", {"nREFI": 900, "nRFC": 60}, "ChRaBaRoCo"),
    "mixed": make_device("DDR4", "DDR4_8Gb_x8", "DDR4_3200AA", mapping="MOP4CLXOR"),
    "HBM2E": preset_device("HBM2E"),
    "LPDDR4X": preset_device("LPDDR4X"),
    "LPDDR5": preset_device("LPDDR5"),
}


def random_stream(seed: int, device: DramDevice, count: int, channels: int = 1) -> np.ndarray:
    """Streams and scattered accesses, reads and writes, in bursts: (count, 4) as `replay` reads them."""
    random = np.random.default_rng(seed)
    size = device.access_bytes
    rows: list[tuple[int, int, int, int]] = []
    tick = 0
    while len(rows) < count:
        tick += int(random.choice((0, 1, 30, 400, 2500)))
        base = int(random.integers(0, 1 << 14)) * size
        stride = int(random.choice((0, 1, 2, 16, 64))) * size
        is_write = int(random.integers(0, 2))
        gap = int(random.choice((0, 0, 1, 3)))
        channel = int(random.integers(0, channels))
        for index in range(int(random.integers(1, 400))):
            rows.append((tick, channel, base + index * stride, is_write))
            tick += gap
            is_write ^= int(random.random() < 0.02)
    return np.array(rows[:count], dtype=np.int64)


def run_kernel(
    device: DramDevice, requests: np.ndarray, *, refreshed: bool = True, channels: int = 1
) -> tuple[np.ndarray, np.ndarray]:
    """(response ticks, state)."""
    layout = CommandLayout(device, channels)
    at, stride = 8, 5
    pool = at + layout.num_words
    state = np.zeros(pool + stride * len(requests), dtype=np.int64)
    layout.write(state, at, pool, stride, 1000, refreshed)
    responses = np.full(len(requests), -1, dtype=np.int64)
    replay(state, at, requests.reshape(-1), responses, 10_000_000)
    return responses, state


def run_slow(
    device: DramDevice, requests: np.ndarray, *, refreshed: bool = True
) -> tuple[np.ndarray, SlowChannel]:
    """The same, one channel."""
    channel = SlowChannel(device, refreshed)
    responses = np.full(len(requests), -1, dtype=np.int64)
    sent, tick = 0, 0
    while (responses < 0).any():
        while sent < len(requests) and requests[sent, 0] <= tick and len(channel.front) < FRONT_LIMIT:
            channel.offer(sent, int(requests[sent, 2]), bool(requests[sent, 3]))
            sent += 1
        channel.tick()
        while channel.finished:
            responses[channel.finished.popleft()] = tick
        tick += 1
    return responses, channel


@pytest.mark.parametrize("name", DEVICES)
@pytest.mark.parametrize("seed", seeds(1, 3, 12))
def test_equals_slow_channel(name: str, seed: int) -> None:
    device = DEVICES[name]
    requests = random_stream(seed, device, 1000)
    responses, state = run_kernel(device, requests)
    expected, slow = run_slow(device, requests)
    np.testing.assert_array_equal(responses, expected)
    c = int(state[8 + ck.DRAM.first])
    assert state[c + ck.CHANNEL.row : c + ck.CHANNEL.row + 3].tolist() == [
        slow.counts["hit"],
        slow.counts["miss"],
        slow.counts["conflict"],
    ]
    assert state[c + ck.CHANNEL.refreshed] == slow.counts["refresh"]


def test_channels_are_independent() -> None:
    device = DEVICES["HBM2"]
    requests = random_stream(7, device, 4000, channels=64)
    # A full front list would hold up requests for other channels.
    requests[:, 0] = np.maximum(requests[:, 0], np.arange(4000) * 3)
    responses, _ = run_kernel(device, requests, channels=64, refreshed=False)
    for channel in (0, 31, 32, 63):
        mine = requests[:, 1] == channel
        alone = requests[mine].copy()
        alone[:, 1] = 0
        np.testing.assert_array_equal(responses[mine], run_kernel(device, alone, refreshed=False)[0])


def test_refresh_delays_and_is_counted() -> None:
    device = make_device("HBM2", "HBM2_8Gb", "HBM2_2.5Gbps")
    steady = np.zeros((8000, 4), dtype=np.int64)
    steady[:, 0] = np.arange(8000) * 4
    steady[:, 2] = np.arange(8000) * 32
    with_refresh, state = run_kernel(device, steady)
    without, _ = run_kernel(device, steady, refreshed=False)
    c = int(state[8 + ck.DRAM.first])
    # Two pseudo-channels, refreshed every 4680 ticks.
    assert state[c + ck.CHANNEL.refreshed] == 2 * (int(with_refresh.max()) // 4680)
    assert (with_refresh - without).max() >= device.timing["nRFC"]


def test_forwarding_from_the_write_buffer() -> None:
    device = DEVICES["DDR4"]
    # Another bank's read keeps the channel in read mode while the write waits.
    requests = np.array([(0, 0, 64, 0), (1, 0, 1 << 17, 1), (2, 0, 1 << 17, 0)], dtype=np.int64)
    responses, state = run_kernel(device, requests)
    assert state[int(state[8 + ck.DRAM.first]) + ck.CHANNEL.forwarded] == 1
    expected, _ = run_slow(device, requests)
    np.testing.assert_array_equal(responses, expected)


def test_timing_of_one_read() -> None:
    # Ref: systolic.md section 8: ACT in the first tick, RD nRCD later, data after the read latency.
    responses, _ = run_kernel(DEVICES["HBM2"], np.array([(0, 0, 0, 0)], dtype=np.int64))
    assert responses.tolist() == [9 + 11]
