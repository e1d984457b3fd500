"""Open a compiled folder, a layout file or a folder with command scripts as a spec and a program."""

import importlib
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from npuviz.base.errors import FormatError, UsageError
from npuviz.base.interrupts import shielded
from npuviz.base.progress import Progress
from npuviz.program.program import Note, Program
from npuviz.sim.target import LoadRequest
from npuviz.targets.wavelet.host.cslc import (
    ARCHITECTURES,
    DEFAULT_ARCHITECTURE,
    CompileOptions,
    compile_wafer,
    parse_arguments,
)
from npuviz.targets.wavelet.host.shims import FAILURES_VARIABLE, SETTINGS_VARIABLE, environment, write_shims
from npuviz.targets.wavelet.load.compiled import (
    FAILURE_FILE,
    RUN_FILE,
    WAFER_FILE,
    is_compiled,
    load_run,
    load_wafer,
    read_failures,
)
from npuviz.targets.wavelet.load.launches import LAUNCH, launch_note, launches, unlaunched_note
from npuviz.targets.wavelet.load.program import make_program
from npuviz.targets.wavelet.spec import WaveletSpec
from npuviz.targets.wavelet.wafer import HostCommand, Wafer

SCRIPT_PATTERN = "commands*.sh"
DEFAULT_SCRIPTS = ("commands_wse3.sh", "run.sh")
"""Of several scripts, the first of these is run, or else the first by name."""
MOST_SCRIPT_BYTES = 1 << 18
"""Largest command script: a longer file is not taken for one."""
SCRIPT_SECONDS = 600
_ARCH = re.compile(r"(?<![\w-])--?arch[= ]\s*['\"]?(wse[23])")
_TOOL_PATH = re.compile(r"(?<![\w.$}-])~?/[\w./+-]*/(cslc|cs_python)\b(?![./-])")
MOST_NEIGHBOURS, MOST_LEVELS = 1000, 5
TOOLS = ("cslc", "cs_python")
"""Tools that scripts call by name, by a path of their author's machine, or as ${CSLC} and ${CS_PYTHON}."""
SDK_LAYOUT_MACRO = "%python_sdk_paint"
COMPILE_SETTINGS = ("arch", "params", "colors", "fabric-dims", "fabric-offsets", "import-path", "fp16-format")
"""Settings of `--set` that are passed to the compiler as the option of the same name."""
RUN_SETTINGS = ("arch", "run", "script")
"""Settings that choose among the runs of a folder."""


@dataclass(frozen=True)
class OpenedProgram:
    """A program to run, and the commands of its host.

    commands  empty if no host program has run: the machine then offers functions to launch
    notes     what the user should know about the origin of the program
    """

    wafer: Wafer
    commands: tuple[HostCommand, ...]
    title: str
    notes: tuple[Note, ...]


def load(request: LoadRequest, progress: Progress) -> tuple[WaveletSpec, Program]:
    """Compile a program or read a compiled one, with the recorded commands of its host. Raises
    NpuvizError."""
    own = {key: value for key, value in request.settings.items() if is_own_setting(key)}
    rest = {key: value for key, value in request.settings.items() if key not in own}
    opened = open_program(request.path, own, progress)
    spec, program = make_program(
        opened.wafer, opened.commands, opened.title, rest, preset=request.preset, config=request.config
    )
    return spec, replace(program, notes=(*opened.notes, *program.notes))


def accepts(path: Path, head: bytes) -> bool:
    """Return whether a file is a CSL program: a layout file, or one of the files in a compiled folder."""
    return path.name in (WAFER_FILE, RUN_FILE) or path.suffix.lower() == ".csl"


def accepts_folder(path: Path) -> bool:
    """Return whether a folder holds a compiled program, or command scripts."""
    try:
        return is_compiled(path) or bool(scripts_of(path))
    except OSError:
        return False


def scripts_of(folder: Path) -> tuple[Path, ...]:
    """Return the command scripts of a folder: `commands*.sh`, else those that call both tools. Raises
    OSError."""
    named = tuple(sorted(folder.glob(SCRIPT_PATTERN)))
    if named or not any(folder.glob("*.csl")):
        return named
    return tuple(script for script in sorted(folder.glob("*.sh")) if _calls_tools(script))


def default_script(scripts: Sequence[Path]) -> Path:
    """Return the script that runs if the user chooses none, of at least one."""
    by_name = {script.name: script for script in scripts}
    return next((by_name[name] for name in DEFAULT_SCRIPTS if name in by_name), scripts[0])


def _calls_tools(script: Path) -> bool:
    if not script.is_file() or script.stat().st_size > MOST_SCRIPT_BYTES:
        return False
    text = script.read_text(encoding="utf-8", errors="replace")
    return all(re.search(rf"\b({tool}|{tool.upper()})\b", text) for tool in TOOLS)


def arch_of(script: Path) -> str:
    """Return the architecture of a command script: as its name says, else its compiler options. Raises
    OSError."""
    named = script.stem.removeprefix("commands").lstrip("_-")
    if named in ARCHITECTURES:
        return named
    found = _ARCH.search(script.read_text(encoding="utf-8", errors="replace"))
    return found[1] if found else DEFAULT_ARCHITECTURE


def scripts_to_run(path: Path) -> tuple[Path, ...]:
    """Return the command scripts among which `open_program` chooses one to run; () where it only reads."""
    try:
        return scripts_of(path) if path.is_dir() and not is_compiled(path) else ()
    except OSError:
        return ()


def is_own_setting(name: str) -> bool:
    """Return whether a `--set` key is for opening a program, not for the machine: arch, params, params.NAME,
    .."""
    own = (*COMPILE_SETTINGS, *RUN_SETTINGS, LAUNCH)
    return name in own or name.startswith(("params.", "colors."))


def open_program(path: Path, settings: Mapping[str, str], progress: Progress) -> OpenedProgram:
    """Read, compile or run what a path names. Raises NpuvizError, OSError."""
    if path.name in (WAFER_FILE, RUN_FILE) and not path.is_dir():
        path = path.parent
    if path.is_dir():
        if is_compiled(path):
            _refuse(settings, ())
            notes = tuple(_failed(text) for text in read_failures(path / FAILURE_FILE))
            return _opened(path, path.resolve().name, notes, settings.get(LAUNCH, ""))
        if scripts_of(path):
            return _run_folder(path, settings, progress)
        raise FormatError(
            path,
            expected=f"a compiled program ({WAFER_FILE}) or {SCRIPT_PATTERN}",
            hint="compile it with npuviz csl cslc, or open its layout file",
        )
    _refuse(settings, RUN_SETTINGS[1:])
    return _compile_file(path, settings, progress)


def _opened(folder: Path, title: str, notes: Sequence[Note], launch: str = "") -> OpenedProgram:
    wafer = load_wafer(folder)
    recording = load_run(folder)
    warnings = tuple(Note("warning", "compiler", text) for text in wafer.warnings)
    if recording is None:
        note = launch_note(wafer, launch)
        return OpenedProgram(wafer, launches(wafer, launch), title, (*notes, *warnings, note))
    if launch:
        raise UsageError(f"--set launch={launch[:60]}: a host program has run here; its commands are used")
    text = (
        f"{len(recording.commands)} commands of the host, recorded from {recording.script or 'its program'}"
    )
    unlaunched = unlaunched_note(wafer, recording.commands)
    notes = (*notes, *([unlaunched] if unlaunched else ()), *warnings, Note("info", "host", text))
    return OpenedProgram(wafer, recording.commands, title, notes)


def _compile_file(path: Path, settings: Mapping[str, str], progress: Progress) -> OpenedProgram:
    if not path.is_file():
        raise UsageError(f"{path}: no such file")
    options = compile_options(path, settings)
    progress.report(-1.0, "compiling")
    wafer = compile_wafer(options)
    warnings = tuple(Note("warning", "compiler", text) for text in wafer.warnings)
    launch = settings.get(LAUNCH, "")
    return OpenedProgram(wafer, launches(wafer, launch), path.stem, (*warnings, launch_note(wafer, launch)))


def compile_options(path: Path, settings: Mapping[str, str]) -> CompileOptions:
    """Return the compiler options that `--set` gives: `arch=wse2`, `params=M:4,N:6`, `params.M=4`.

    Raises UsageError.
    """
    words = [str(path)]
    for name, value in settings.items():
        if name in COMPILE_SETTINGS:
            words.append(f"--{name}={value}")
        elif name.startswith(("params.", "colors.")):
            group, _, key = name.partition(".")
            words.append(f"--{group}={key}:{value}")
    if words[0].startswith("-"):
        words[0] = f"./{words[0]}"
    return parse_arguments(words)


def _refuse(settings: Mapping[str, str], names: Sequence[str]) -> None:
    """Raise UsageError for settings that mean nothing for the opened path: `names`, or all but launch if
    there are none."""
    for name in settings:
        if not is_own_setting(name) or name == LAUNCH:
            continue
        if not names or name in names:
            raise UsageError(f"--set {name}: means nothing for this path; it is for {_meaning(name)}")


def _meaning(name: str) -> str:
    return "folders with command scripts" if name in RUN_SETTINGS[1:] else "layout files"


def _run_folder(folder: Path, settings: Mapping[str, str], progress: Progress) -> OpenedProgram:
    """Run a folder's own script in a copy of the folder, with the stand-ins first on the path."""
    for name in settings:
        if is_own_setting(name) and name not in RUN_SETTINGS:
            raise UsageError(f"--set {name}: the folder's own script says this; open its layout file instead")
    script = _script(folder, settings)
    progress.report(-1.0, f"running {script.name}")
    with tempfile.TemporaryDirectory(prefix="npuviz-csl-") as scratch:
        place = Path(scratch)
        ran = run_script(script, place, SCRIPT_SECONDS)
        compiled = compiled_folders(ran.folder)
        if not compiled:
            raise UsageError(f"{script}: compiled nothing; {ran.reason() or f'exit code {ran.code}'}")
        notes = [Note("info", "host", f"ran the folder's own {script.name} in a copy of the folder")]
        notes += [_failed(text) for text in _failures(ran, script, compiled)]
        return _opened(_chosen(compiled, ran.folder, settings), folder.resolve().name, notes)


def _failed(text: str) -> Note:
    return Note("error", "host", f"the host program failed: {text}")


def _script(folder: Path, settings: Mapping[str, str]) -> Path:
    scripts = scripts_of(folder)
    wanted = settings.get("script") or (f"commands_{settings['arch']}.sh" if "arch" in settings else "")
    if wanted:
        fitting = [script for script in scripts if script.name == wanted]
        if not fitting and "script" not in settings:
            fitting = [script for script in scripts if arch_of(script) == settings["arch"]]
        if not fitting:
            raise UsageError(f"{folder}: no {wanted}; found {', '.join(script.name for script in scripts)}")
        return fitting[0]
    return default_script(scripts)


def _chosen(compiled: Sequence[Path], root: Path, settings: Mapping[str, str]) -> Path:
    """Return the compiled program that `--set run=` names, else the one that ran last."""
    wanted = settings.get("run")
    names = {str(path.relative_to(root)): path for path in compiled}
    if wanted is not None:
        if wanted not in names:
            raise UsageError(f"--set run={wanted[:60]}: expected one of {', '.join(sorted(names))}")
        return names[wanted]
    with_run = [path for path in compiled if (path / RUN_FILE).is_file()]
    if with_run:
        return max(with_run, key=lambda path: (path / RUN_FILE).stat().st_mtime_ns)
    return max(compiled, key=lambda path: (path / WAFER_FILE).stat().st_mtime_ns)


@dataclass(frozen=True)
class ScriptRun:
    """The result of a command script.

    code      its exit code, None if it ran out of time
    failures  one line for each host program that failed
    """

    folder: Path
    code: int | None
    output: str
    failures: tuple[str, ...] = ()

    def reason(self) -> str:
        """Return why the script failed: the failure of its first host program, else its last line, cut."""
        lines = [line.strip() for line in self.output.splitlines() if line.strip()]
        return self.failures[0] if self.failures else lines[-1][:300] if lines else ""


def _failures(ran: ScriptRun, script: Path, compiled: Sequence[Path]) -> Sequence[str]:
    """Return why the run of a command script is no success: each host program that failed, else the script
    itself.

    Scripts continue after a host program that fails, so that their exit code alone does not tell.
    """
    if ran.code is None:
        return [f"{script.name} did not end in {SCRIPT_SECONDS} s: {ran.reason()}"]
    if ran.failures:
        return ran.failures
    if ran.code:
        return [f"{script.name} ended with exit code {ran.code}: {ran.reason()}"]
    if not any((folder / RUN_FILE).is_file() for folder in compiled):
        return [f"{script.name} compiled, and no host program has loaded what it made"]
    return ()


def run_script(script: Path, place: Path, seconds: float, settings: str = "") -> ScriptRun:
    """Run a command script in a copy of its folder below `place`, with the stand-ins first on the path.

    Files beside the folder, and beside the folders above it up to the root of its repository, are there as
    links, so that modules in ../libs are found.

    settings  KEY=VALUE pairs for the machine, with commas between them
    """
    folder = _copy(script.resolve().parent, place / "copy")
    expand_macros(folder / script.name)
    return run_command(f"bash {shlex.quote(script.name)}", folder, place, seconds, settings)


def _copy(source: Path, place: Path) -> Path:
    """Copy a folder, with links to what is beside it; return the copy."""
    above = list(source.parents)[:MOST_LEVELS]
    root = next((path for path in (source, *above) if (path / ".git").exists()), source.parent)
    levels = [path for path in above if path == source.parent or path.is_relative_to(root)]
    top = levels[-1] if levels else source
    folder = place / source.relative_to(top)
    shutil.copytree(source, folder, ignore=shutil.ignore_patterns(".git"))
    for level in levels:
        # A folder that may not be listed has no neighbours.
        try:
            neighbours = [*islice(level.iterdir(), MOST_NEIGHBOURS)]
        except PermissionError:
            continue
        for neighbour in neighbours:
            link = place / neighbour.relative_to(top)
            if not source.is_relative_to(neighbour) and neighbour.name != ".git":
                link.symlink_to(neighbour)
    return folder


def run_command(command: str, folder: Path, place: Path, seconds: float, settings: str = "") -> ScriptRun:
    """Run a command of the shell in a folder, with the stand-ins, written below `place`, first on the path.

    settings  KEY=VALUE pairs for the machine, with commas between them
    """
    shims = place / "shims"
    write_shims(shims)
    variables = environment()
    variables["PATH"] = f"{shims}:{variables.get('PATH', '')}"
    for name in TOOLS:
        variables.setdefault(name.upper(), name)
    failures = place / "failures"
    variables[FAILURES_VARIABLE] = str(failures.resolve())
    if settings:
        variables[SETTINGS_VARIABLE] = settings
    process: subprocess.Popen[str] | None = None
    try:
        with shielded():
            process = subprocess.Popen(
                ["bash", "-c", command],
                cwd=folder,
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                start_new_session=True,
            )
        # The modules that read and run the program take half a second to import: do so while the script runs.
        for name in ("machine.machine", "load.wafer_check"):
            importlib.import_module(f"npuviz.targets.wavelet.{name}")
        output, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        assert process is not None
        _end(process)
        output, _ = process.communicate()
        return ScriptRun(folder, None, output, read_failures(failures))
    except BaseException:
        if process is not None:
            _end(process)
        raise
    return ScriptRun(folder, process.returncode, output, read_failures(failures))


def expand_macros(script: Path) -> None:
    """Replace in a script what stands for the tools: a macro of the vendor's tests, paths that do not exist
    here."""
    text = script.read_text(encoding="utf-8", errors="replace")
    expanded = text.replace(SDK_LAYOUT_MACRO, "cs_python run.py")
    expanded = _TOOL_PATH.sub(lambda m: m[0] if Path(m[0]).expanduser().exists() else m[1], expanded)
    if expanded != text:
        script.write_text(expanded, encoding="utf-8")


def _end(process: "subprocess.Popen[str]") -> None:
    """End a script with everything that it started: they share a process group."""
    import os
    import signal
    from contextlib import suppress

    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def compiled_folders(folder: Path) -> list[Path]:
    """Return the folders below a folder that hold a compiled program."""
    return sorted(path.parent for path in folder.rglob(WAFER_FILE))
