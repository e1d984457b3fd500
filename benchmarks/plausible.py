"""Checks that runs exceed no peak and lose no byte, on every target and preset with the sample models.

    python -m benchmarks.plausible [FILE_OR_FOLDER...]    the samples, or other models and configurations

A .json file in a folder `configs` is a configuration of the machine; each configuration runs each of the
models.
"""

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.row import Row
from npuviz.base.errors import NpuvizError
from npuviz.base.progress import NoProgress
from npuviz.sim.machine import HasPeaks, Machine, Peak
from npuviz.sim.stop import NO_STOPS, StopKind
from npuviz.sim.target import LoadRequest, Target
from npuviz.workbench.choosing import choose_target, targets

SAMPLES = Path(__file__).parents[1] / "sample_models"
MODELS = ("tiny_cnn.onnx", "tiny_cnn_int8.onnx", "tiny_transformer.onnx")
PROGRAMS = ("csl/heat", "csl/row_sum")
FOREVER = 1 << 50


@dataclass(frozen=True)
class Found:
    """Result of the check of a run: the nearest peak, and all contradictions.

    nearest  the limit of which the largest share is used; None without limits
    """

    nearest: Peak | None
    num_checked: int
    wrong: tuple[str, ...] = field(default=())

    @property
    def share(self) -> float:
        """Used share of the nearest peak, 0..1."""
        peak = self.nearest
        return peak.used / peak.limit if peak is not None and peak.limit else 0.0


def checked(machine: Machine) -> Found:
    """Run a machine to its end, and compare its counts with its peaks."""
    stop = machine.advance(FOREVER, NO_STOPS, None)
    wrong = [] if stop.kind is StopKind.FINISHED else [f"stopped: {stop.kind} {stop.detail}".strip()]
    cycle = machine.cycle
    for name, busy, waiting in machine.summary().units:
        if min(busy, waiting) < 0 or busy + waiting > cycle:
            wrong.append(f"{name}: busy {busy}, waiting {waiting} of {cycle} cycles")
    peaks = list(machine.peaks()) if isinstance(machine, HasPeaks) else []
    for peak in peaks:
        if not peak.is_plausible:
            sign = "=" if peak.is_exact else "<="
            wrong.append(f"{peak.name}: {peak.used:,.0f} {sign} {peak.limit:,.0f} {peak.measure} fails")
    limits = [peak for peak in peaks if not peak.is_exact and peak.limit > 0]
    nearest = max(limits, key=lambda peak: peak.used / peak.limit, default=None)
    return Found(nearest, len(peaks) + len(machine.summary().units), tuple(wrong))


def samples() -> Iterator[tuple[str, Target, LoadRequest]]:
    """Yield name, target and request of every sample on every preset that takes it."""
    for name, target in targets().items():
        for model in (*MODELS, *PROGRAMS):
            path = SAMPLES / model
            if path.suffix not in target.file_kinds if path.suffix else choose_target(path, "") is not target:
                continue
            for preset in target.presets or ("",):
                # A program is compiled for the architecture of the preset, by the script with that name.
                scripts = (script.stem.removeprefix("commands_") for script in path.glob("commands_*.sh"))
                arch = next(filter(preset.startswith, scripts), "")
                request = LoadRequest(path, preset, settings={"arch": arch} if arch else {})
                yield f"{name} {preset}".strip() + f": {path.stem}", target, request


def given(paths: Iterable[Path]) -> Iterator[tuple[str, Target, LoadRequest]]:
    """Yield every given model on every given configuration, or with default settings."""
    files = [file for path in paths for file in (sorted(path.rglob("*")) if path.is_dir() else [path])]
    configs = [file for file in files if file.suffix == ".json" and "configs" in file.parts]
    for model in (file for file in files if file.suffix in (".onnx", ".neff", ".regcmd")):
        for config in configs or [None]:
            label = f"{config.stem if config else 'default'}: {model.stem}"
            yield label, choose_target(model, "systolic" if config else ""), LoadRequest(model, "", config)


def measured(cases: Iterable[tuple[str, Target, LoadRequest]]) -> Iterator[Row]:
    """Check each case: one row for it, and one for each contradiction."""
    for name, target, request in cases:
        try:
            found = checked(target.build(*target.load(request, NoProgress())))
        except NpuvizError as error:
            yield Row(f"{name}: cannot run: {error}", 0.0, "")
            continue
        nearest = found.nearest.name if found.nearest is not None else "no peak"
        figure = f"<= 100 %, {found.num_checked} numbers"
        title = f"{name}, nearest to its peak: {nearest}"
        yield Row(title, 100 * found.share, "%", figure, bool(found.wrong))
        for line in found.wrong:
            yield Row(f"{name}: {line}", 0.0, "", "cannot be", True)


def run() -> list[Row]:
    """Check every target and preset with the sample models."""
    return list(measured(samples()))


def main() -> int:
    """Print the rows. Returns 1 if there is a contradiction, else 0."""
    paths = [Path(argument) for argument in sys.argv[1:]]
    is_wrong = False
    for row in measured(given(paths) if paths else samples()):
        is_wrong |= row.is_wrong
        print(f"{'WRONG ' if row.is_wrong else ''}{row.name}  {row.value:.1f} {row.unit}", flush=True)
    return int(is_wrong)


if __name__ == "__main__":
    sys.exit(main())
