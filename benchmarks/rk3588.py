"""Compares the RK3588 machine with published data: register streams, layouts, layer times, quantised
networks."""

import json
import re
from pathlib import Path

import numpy as np

from benchmarks.rk3588_models import Run, quantised_light, run_model
from benchmarks.rk3588_streams import feature_offset, matmul_task, weight_offset
from benchmarks.row import Row
from npuviz.base.progress import NoProgress
from npuviz.formats.rk3588 import tensor_layout as layout
from npuviz.formats.rk3588.conv_words import conv_task_words
from npuviz.formats.rk3588.regcmd.area import read_regcmd
from npuviz.sim.stop import NO_STOPS
from npuviz.sim.target import LoadRequest
from npuviz.targets.rk3588.target import TARGET

DATA = Path(__file__).resolve().parents[2] / "shared" / "real" / "rk3588"
FEATURES, WEIGHTS, OUTPUT = 0xFFFF8000, 0xFFFF9000, 0xFFFFA000
"""Addresses in the public streams; synthetic, according to their first lines."""
FOREVER = 1 << 40
MODEL = "light_resnet50"


def run() -> list[Row]:
    """Measure everything; takes about half a minute if the quantised model exists already."""
    TARGET.warm_up(NoProgress())
    return [*exact_rows(), *published_rows(), *product_rows(), *network_rows()]


# --- what must be equal ----------------------------------------------------------------------------


def exact_rows() -> list[Row]:
    """Count streams, bytes and offsets that equal the public data."""
    dumps = sorted((DATA / "regcmd").glob("regcmd_*.txt"))
    equal = sum(stream_is_equal(path) for path in dumps)
    samples, right = layout_samples()
    return [
        Row("matmul register streams equal, word for word", equal, "streams", f"{len(dumps)}"),
        Row("bytes of the 4x36x16 result that differ", image_difference(), "bytes", "0"),
        Row("layout samples equal", right, "offsets", f"{samples}"),
    ]


def stream_is_equal(path: Path) -> bool:
    """Return whether the generator writes a stream equal to a public one."""
    found = re.fullmatch(r"regcmd_(fp16|int8)_(\d+)x(\d+)x(\d+)", path.stem)
    if found is None:
        return False
    rows, inner, columns = (int(each) for each in found.groups()[1:])
    dtype = "float16" if found[1] == "fp16" else "int8"
    task = matmul_task(rows, inner, columns, dtype, addresses=(FEATURES, WEIGHTS, OUTPUT))
    made, public = conv_task_words(task).packed(), read_regcmd(path).words
    return len(made) == len(public) and bool(np.all(made == public))


def image_difference() -> int:
    """Run the public stream on the public memory image, and count the bytes of the result that differ."""
    images = json.loads((DATA / "matmul_4x36x16_memory.json").read_text())
    path = DATA / "regcmd" / "regcmd_fp16_4x64x16.txt"
    spec, program = TARGET.load(LoadRequest(path), NoProgress())
    machine = TARGET.build(spec, program)
    ddr = spec.cores
    machine.write_memory(ddr, FEATURES, bytes.fromhex(images["feature_fp16_hex"]))
    machine.write_memory(ddr, WEIGHTS, bytes.fromhex(images["weight_fp16_hex"]))
    machine.advance(FOREVER, NO_STOPS, None)
    expected = bytes.fromhex(images["output_fp32_hex"])
    found = machine.read_memory(ddr, OUTPUT, len(expected))
    return sum(one != other for one, other in zip(found, expected, strict=True))


def layout_samples() -> tuple[int, int]:
    """Return (number of public offsets, number of these that the layout functions reproduce)."""
    total = right = 0
    for line in (DATA / "layout_samples_public.txt").read_text().splitlines()[1:]:
        size = {key: int(value) for key, value in re.findall(r"(\w)=(\d+)", line.split("->")[0])}
        offsets = [int(part.split()[0]) for part in line.split("->")[1:]]
        if line.startswith("W"):
            shape = layout.WeightShape(1 << 14, size["C"])
            made = [
                weight_offset(size["k"] - 1, size["c"] - 1, 0, 0, shape=shape, group=group)
                for group in (16, 32)
            ]
        else:
            place = (size["c"] - 1, size["h"] - 1, size["w"] - 1)
            made = [
                feature_offset(*place, height=size["H"], width=size["W"], group=group) for group in (8, 16, 4)
            ]
        total += len(offsets)
        right += sum(one == other for one, other in zip(made, offsets, strict=True))
    return total, right


# --- published layer times -------------------------------------------------------------------------


def published_rows() -> list[Row]:
    """Compare simulated layers on one core with the vendor's estimate and the measured time."""
    # The table may not be redistributed; the work of its rows is made by the helpers of the tests.
    from npuviz.targets.rk3588.view.reports import estimated_cycles
    from tests.targets.rk3588.machine_cases import SHARED, layer_spec, layers, machine_of, task_of

    names = ("NPU cycles equal", "measured time: mean error", "measured time: largest error")
    figures = ("31 rows of 31", "at most 8 %", "at most 25 %")
    if not SHARED.is_file():
        return [
            Row(f"{name} (no {SHARED.name} here)", float("nan"), "", figure)
            for name, figure in zip(names, figures, strict=True)
        ]
    errors: list[float] = []
    exact = 0
    for layer in layers():
        task = task_of(layer.work)
        machine = machine_of([task], layer_spec())
        machine.advance(FOREVER, NO_STOPS, None)
        exact += estimated_cycles(task, machine.engine.costs[0]) == layer.npu_cycles
        errors.append(abs(machine.cycle / 1000 / layer.time_us - 1) * 100)
    values = (float(exact), float(np.mean(errors)), max(errors))
    return [
        Row(name, value, unit, figure)
        for name, value, unit, figure in zip(names, values, ("rows", "%", "%"), figures, strict=True)
    ]


def product_rows() -> list[Row]:
    """Simulate fp16 512 x 512 x 512 in two tasks of 256 rows: the time and its parts."""
    from npuviz.targets.rk3588.kernels import records as sk
    from npuviz.targets.rk3588.task.work import decode_work
    from tests.targets.rk3588.machine_cases import machine_of, task_of

    tasks = []
    for number in range(2):
        places = (0x1000_0000 + number * 256 * 16, 0x2000_0000, 0x3000_0000 + number * 256 * 16)
        words = conv_task_words(matmul_task(256, 512, 512, "float16", addresses=places)).words
        tasks.append(task_of(decode_work({word.offset: word.value for word in words}, 0x0D), number))
    machine = machine_of(tasks)
    machine.advance(FOREVER, NO_STOPS, None)
    records = [machine.engine.record(number) for number in range(2)]
    per_ms = machine.engine.spec.npu_hz / 1e3

    def total(word: int) -> float:
        return sum(int(record[word]) for record in records) / per_ms

    spec = machine.engine.spec
    starts = (2 * spec.to_cycles(spec.task_ns) + spec.to_cycles(spec.job_driver_ns)) / per_ms
    name = "fp16 512x512x512 in two tasks"
    return [
        Row(name, machine.cycle / per_ms, "ms", "0.26 (ideal) to 1.2"),
        Row(f"{name}: CORE works", total(sk.RESULT.mac), "ms", "0.262"),
        Row(
            f"{name}: CORE waits for features and weights",
            total(sk.RESULT.data) + total(sk.RESULT.weights),
            "ms",
        ),
        Row(f"{name}: CORE waits for the DPU", total(sk.RESULT.output), "ms"),
        Row(f"{name}: starts of driver and tasks", starts, "ms"),
    ]


# --- a quantised network ---------------------------------------------------------------------------


def network_rows() -> list[Row]:
    """Simulate light_resnet50 in int8 on one core and on three."""
    path = quantised_light(MODEL)
    one, three = (run_model(path, cores) for cores in (1, 3))
    ratio = one.npu_ms / three.npu_ms
    return [
        Row(f"{MODEL} int8, 1 core: NPU time", one.npu_ms, "ms"),
        Row(f"{MODEL} int8, 3 cores: NPU time", three.npu_ms, "ms"),
        Row(f"{MODEL} int8: 3 cores faster by", ratio, "x", "2.0 to 3.0 unless DDR-bound"),
        Row(f"{MODEL} int8, 3 cores: time in DDR-bound operators", bound(three), "%"),
        Row(f"{MODEL} int8, 3 cores: host and driver", three.whole_ms - three.npu_ms, "ms"),
    ]


def bound(found: Run) -> float:
    """Return the percentage of the operators' time in operators whose bottleneck is DDR."""
    total = sum(layer.cycles for layer in found.layers)
    waiting = sum(layer.cycles for layer in found.layers if layer.bottleneck == "DDR")
    return 100 * waiting / total if total else 0.0
