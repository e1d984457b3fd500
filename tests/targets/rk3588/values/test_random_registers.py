"""Random registers: a task either runs or is a fault; nothing else leaves the values engine."""

import numpy as np
import pytest

from npuviz.targets.rk3588.values.engine import ValueEngine
from tests.targets.rk3588.hand_tasks import (
    BIAS,
    FEATURES,
    OPERAND,
    OUTPUT,
    WEIGHTS,
    buffer,
    convolution_registers,
    engine_of,
    log_of,
    task_of,
    task_of_words,
)
from tests.targets.rk3588.values.test_dpu import flying, table_words
from tests.targets.rk3588.values.test_ppu import AVERAGE, MAX, pooling

SIZE = 1 << 16
TABLE_WORDS = table_words(np.arange(513), np.arange(513))


def engine_with(registers: dict[int, int], enable: int) -> ValueEngine:
    noise = np.random.default_rng(9).integers(0, 256, SIZE).astype(np.uint8)
    words = [*TABLE_WORDS, *task_of(registers, enable).words.tolist()]
    return engine_of(
        [task_of_words(words, enable)],
        [
            buffer("features", FEATURES, noise),
            buffer("weights", WEIGHTS, noise),
            buffer("bias", BIAS, noise),
            buffer("operand", OPERAND, noise),
            buffer("output", OUTPUT, SIZE),
        ],
    )


BASES = [
    (convolution_registers((32, 32, 3, 3), (6, 6), pads=(1, 1, 1, 1)), 0x0D),
    (convolution_registers((16, 32, 1, 1), (4, 4), precision=2, out=5), 0x0D),
    (convolution_registers((64, 64, 3, 3), (5, 5), depthwise=True), 0x0D),
    (flying((32, 4, 4), {}, source=0, out=0), 0x18),
    (flying((32, 4, 4), {0x4040: 2 << 16 | 0x100, 0x4070: 1 << 28 | 2 << 16 | 1 << 22 | 0x2C0}), 0x18),
    (flying((16, 4, 4), {0x4070: 0x302, 0x410C: 0x50500}, source=2, out=2, proc=2), 0x18),
    (pooling((32, 8, 8), (3, 3), (2, 2), (1, 1, 1, 1), MAX), 0x60),
    (pooling((32, 8, 8), (2, 2), (2, 2), (0, 0, 0, 0), AVERAGE, 2), 0x60),
]


@pytest.mark.parametrize("seed", range(8))
def test_random_registers_run_or_are_faults(seed: int) -> None:
    generator = np.random.default_rng(seed)
    base, enable = BASES[seed]
    outcomes = {True: 0, False: 0}
    offsets = sorted({*base, 0x1050, 0x301C, 0x4048, 0x4068, 0x4108, 0x5034, 0x501C, 0x504C})
    for _ in range(60):
        registers = dict(base)
        for offset in generator.choice(offsets, generator.integers(1, 4)).tolist():
            value = registers.get(offset, 0)
            if generator.random() < 0.6:
                value ^= 1 << int(generator.integers(32))
            else:
                value = int(generator.integers(1 << 32))
            registers[offset] = value
        engine = engine_with(registers, enable)
        engine.advance_to(log_of(0))
        hazards = engine.hazards
        outcomes[bool(hazards)] += 1
        if hazards:
            assert len(hazards) == 1
            assert "\n" not in hazards[0].text
            assert engine.read(OUTPUT, SIZE) == bytes(SIZE)
        assert engine.operand_at(log_of(), (), 0, "features").nbytes <= 1 << 20
    assert min(outcomes.values()) > 0
