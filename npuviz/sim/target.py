"""Define the contract of a target: a stateless plug-in that turns files into programs and builds machines."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from npuviz.base.progress import Progress
from npuviz.program.program import Program
from npuviz.sim.check_result import CheckResult
from npuviz.sim.machine import Machine

ASSUMED = "Assumed"
"""First word of the source of a figure for which no public source was found."""


@dataclass(frozen=True)
class LoadRequest:
    """What to load, as the user asked for it.

    path     the model
    preset   name of a preset of the target, "" for its default
    config   the target's hardware description file, or None
    settings `--set KEY=VALUE` pairs, unparsed text: keys of the spec, of the configuration file, or
             names of symbolic dimensions
    inputs   input tensor name -> array; missing inputs are drawn from `seed`
    """

    path: Path
    preset: str = ""
    config: Path | None = None
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    inputs: Mapping[str, np.ndarray] = field(default_factory=dict[str, np.ndarray])
    seed: int = 0


class Target(Protocol):
    """One kind of machine. All methods are pure; a target object holds no state."""

    @property
    def id(self) -> str:
        """Stable name that users write after --target."""
        ...

    @property
    def title(self) -> str:
        """Name shown to the user."""
        ...

    @property
    def presets(self) -> Mapping[str, str]:
        """Preset name -> one-line description; the first is the default."""
        ...

    @property
    def file_kinds(self) -> Mapping[str, str]:
        """Accepted file suffix (".onnx") -> description."""
        ...

    def accepts(self, path: Path, head: bytes) -> bool:
        """Whether the file goes to this target when the user names none, judged by its name and first bytes.

        A file kind may belong to several targets; at most one of them accepts it. Never raises.
        """
        ...

    def locate(self, name: str, config: Path | None) -> Path | None:
        """Return the file of a model that is named without a path beside a hardware description,
        else None."""
        ...

    def load(self, request: LoadRequest, progress: Progress) -> tuple[Any, Program]:
        """Read and compile; return (spec, program). Raises FormatError or TargetError."""
        ...

    def build(self, spec: Any, program: Program) -> Machine:
        """Return a machine at cycle 0."""
        ...

    def check(self, machine: Machine, progress: Progress) -> CheckResult:
        """Compare all tensors that the finished machine computed with the reference execution."""
        ...

    def warm_up(self, progress: Progress) -> None:
        """Load the compiled kernels or have them compiled; wait for them if they may not run uncompiled."""
        ...


@dataclass(frozen=True, slots=True)
class Sample:
    """A sample model that shows what is special about a machine.

    path      path below the folder of sample models: a file, or a folder that is a program
    text      one sentence about what it shows
    panel     id of the panel shown in its picture
    settings  `--set` pairs to open it with
    """

    path: str
    text: str
    panel: str = "timeline"
    settings: Mapping[str, str] = field(default_factory=dict[str, str])


@runtime_checkable
class HasSample(Target, Protocol):
    """A target with a sample model on the start page."""

    @property
    def sample(self) -> Sample:
        """The sample to offer."""
        ...


@dataclass(frozen=True, slots=True)
class Setting:
    """One key of `--set` with its value for a choice of preset, description file and other settings.

    value   as `--set` takes it; "" if the file that is opened decides
    source  source of the figure, "" for a choice that is no figure
    words   the only allowed values, () for any
    is_needed  the user must give a value before anything is opened; `value` is ""
    """

    name: str
    value: str
    source: str = ""
    words: tuple[str, ...] = ()
    is_needed: bool = False

    @property
    def is_assumed(self) -> bool:
        """Whether no public source was found for the figure."""
        return self.source.startswith(ASSUMED)


@runtime_checkable
class HasSettings(Target, Protocol):
    """A target that can list its machine's settings before a file is opened."""

    def settings(self, request: LoadRequest) -> Sequence[Setting]:
        """Return every setting with its value and source, without the dimensions of a model.

        Raises UsageError for a setting that would be refused, FormatError for a wrong description file.
        """
        ...


@runtime_checkable
class TakesFolders(Target, Protocol):
    """A target whose programs may be folders."""

    def accepts_folder(self, path: Path) -> bool:
        """Whether the folder is one of its programs, judged by the names in it. Never raises."""
        ...


@runtime_checkable
class RunsScripts(Target, Protocol):
    """A target whose `load` may start programs that come with the files it opens."""

    def scripts(self, path: Path) -> Sequence[Path]:
        """Return the scripts that loading a path would start; () if it only reads. Never raises."""
        ...


@runtime_checkable
class Feeds(Target, Protocol):
    """A target whose programs run again with other inputs, without being compiled again."""

    def feed(self, spec: Any, program: Program, inputs: Mapping[str, np.ndarray]) -> Program:
        """Return the same program with these inputs, by name, in its shapes. Raises UsageError."""
        ...


@runtime_checkable
class Compiles(Target, Protocol):
    """A target that can also write a model as a file in its machine's own format."""

    @property
    def compiled_kinds(self) -> Mapping[str, str]:
        """Suffix of the files that it writes (".neff") -> description."""
        ...

    def compile(self, request: LoadRequest, out: Path, progress: Progress) -> str:
        """Compile `request.path` and write `out`, whole or not at all; return a sentence about it.

        Raises FormatError, TargetError, UsageError, or OSError from writing.
        """
        ...


@dataclass(frozen=True, slots=True)
class MapRow:
    """One operator of a mapping search: its default tiling and the best one found, with simulated cycles."""

    operator: str
    default: str
    default_cycles: int
    found: str
    found_cycles: int
    tried: int


@dataclass(frozen=True, slots=True)
class MapResult:
    """Result of a mapping search: cycles of the whole model, simulated, by default and as found."""

    rows: tuple[MapRow, ...]
    default_cycles: int
    found_cycles: int


@runtime_checkable
class Maps(Target, Protocol):
    """A target that can search for better tilings and core assignments of a model."""

    def map(self, request: LoadRequest, candidates: int, out: Path | None, progress: Progress) -> MapResult:
        """Search, and write the mappings found to `out` for later runs.

        candidates  number of tilings simulated per operator
        Raises FormatError, TargetError, UsageError, or OSError from writing.
        """
        ...
