"""The wavelet target: CSL programs on a grid of processing elements with routers (WSE-2, WSE-3)."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from npuviz.base.errors import TargetError
from npuviz.base.progress import Progress
from npuviz.program.program import Program
from npuviz.sim.check_result import CheckResult
from npuviz.sim.latencies import Varied
from npuviz.sim.machine import Machine
from npuviz.sim.remedy import Remedy
from npuviz.sim.target import LoadRequest, Sample, Setting
from npuviz.targets.wavelet.spec import PRESETS

# What compiles, runs or checks is imported where it is used: every target is loaded to find the one that
# takes a file.


class WaveletTarget:
    """Stateless; see npuviz.sim.target.Target for the contract."""

    id = "wavelet"
    title = "Wavelet fabric (CSL on WSE-2, WSE-3)"
    sample = Sample(
        "csl/heat",
        "64 processing elements trade the edges of a hot plate: follow each wavelet to its source line.",
        panel="fabric",
    )
    presets: Mapping[str, str] = {name: text for name, (text, _) in PRESETS.items()}
    file_kinds: Mapping[str, str] = {
        ".csl": "CSL layout",
        ".npuwafer": "compiled wafer",
    }

    def accepts(self, path: Path, head: bytes) -> bool:
        """Return whether a file is a CSL layout or belongs to a compiled folder."""
        from npuviz.targets.wavelet.load.loader import accepts

        return accepts(path, head)

    def accepts_folder(self, path: Path) -> bool:
        """Return whether a folder is compiled or holds command scripts."""
        from npuviz.targets.wavelet.load.loader import accepts_folder

        return accepts_folder(path)

    def scripts(self, path: Path) -> tuple[Path, ...]:
        """Return the command scripts of a folder that is not compiled yet; each runs its host program."""
        from npuviz.targets.wavelet.load.loader import scripts_to_run

        return scripts_to_run(path)

    def locate(self, name: str, config: Path | None) -> Path | None:
        """Return None: programs for wafers have no home folder."""
        return None

    def settings(self, request: LoadRequest) -> Sequence[Setting]:
        """Return every setting with its value and the source of the value; see the contract."""
        from npuviz.targets.wavelet.spec import list_settings

        return list_settings(request)

    def remedies(self, request: LoadRequest) -> Sequence[Remedy]:
        """Return settings that would make a run shorter; see npuviz.sim.remedy."""
        from npuviz.targets.wavelet.remedies import remedies

        return remedies(request)

    def load(self, request: LoadRequest, progress: Progress) -> tuple[Any, Program]:
        """Compile a program or read a compiled one, with the recorded commands of its host; see the
        contract."""
        from npuviz.targets.wavelet.load.loader import load

        return load(request, progress)

    def varied(self, spec: Any, program: Program) -> Sequence[Varied]:
        """Return the latencies that a seed changes: links, ramps, tasks, operations and launches."""
        from npuviz.targets.wavelet.machine.latencies import varied

        return varied(program)

    def not_varied(self, spec: Any, program: Program) -> Sequence[str]:
        """Return the times that no seed changes."""
        from npuviz.targets.wavelet.machine.latencies import NOT_VARIED

        return NOT_VARIED

    def build(self, spec: Any, program: Program) -> Machine:
        """Return a machine at cycle 0."""
        from npuviz.targets.wavelet.machine.machine import WaveletMachine

        return WaveletMachine(spec, program)

    def check(self, machine: Machine, progress: Progress) -> CheckResult:
        """Raise TargetError: the host program of a wafer checks its results itself."""
        raise TargetError("values are checked by the program's own host script (cs_python run.py)")

    def warm_up(self, progress: Progress) -> None:
        """Load the compiled kernels, or have them compiled."""
        from npuviz.sim.parts.kernel_call import prepare
        from npuviz.targets.wavelet.kernels.advance import advance

        prepare(advance, progress)


TARGET = WaveletTarget()
