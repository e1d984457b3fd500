"""Try which programs of a folder run, and which of their own checks pass: `npuviz csl coverage`."""

import json
import re
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from npuviz.base.errors import UsageError
from npuviz.base.names import is_number
from npuviz.targets.wavelet.host.finished import TRACE_FOLDER
from npuviz.targets.wavelet.load.loader import (
    SCRIPT_PATTERN,
    SDK_LAYOUT_MACRO,
    ScriptRun,
    arch_of,
    run_script,
)

SECONDS = 300.0
USAGE = (
    "npuviz csl coverage FOLDER [--report FILE] [--jobs N] [--only TEXT] [--arch wse2|wse3] [--timeout S] "
    "[--json]"
)
_POSITION = re.compile(r"\S+\.csl:\d+:\d+: .*")
_UNSUPPORTED = re.compile(r"unsupported|not supported|no such library|cannot find", re.IGNORECASE)
PASS, WRONG, FAILED, UNSUPPORTED, TIMEOUT = "pass", "wrong", "failed", "unsupported", "timeout"


@dataclass(frozen=True)
class Outcome:
    """The result of one program with one script.

    kind    pass; wrong: its own check failed; failed: compiler or chip stopped; unsupported; timeout
    cycles  simulated cycles of its last run, -1 if none ended
    detail  the line that tells why, "" for a pass
    """

    program: str
    arch: str
    kind: str
    seconds: float
    cycles: int
    detail: str


@dataclass(frozen=True)
class Request:
    """The options of the command: which programs to try, and how."""

    folder: Path
    report: Path | None = None
    jobs: int = 1
    only: str = ""
    arch: str = ""
    seconds: float = SECONDS
    as_json: bool = False


def parse(arguments: Sequence[str]) -> Request:
    """Return the options of a command line. Raises UsageError."""
    values: dict[str, str] = {}
    folders: list[str] = []
    rest = list(arguments)
    as_json = False
    while rest:
        word = rest.pop(0)
        if word == "--json":
            as_json = True
        elif word in ("--report", "--jobs", "--only", "--arch", "--timeout"):
            if not rest:
                raise UsageError(f"csl coverage {word}: expected a value; {USAGE}")
            values[word] = rest.pop(0)
        elif word.startswith("-"):
            raise UsageError(f"csl coverage {word[:40]}: unknown option; {USAGE}")
        else:
            folders.append(word)
    if len(folders) != 1 or not Path(folders[0]).is_dir():
        raise UsageError(f"csl coverage: expected one folder with programs; {USAGE}")
    numbers = {name: values.get(name, default) for name, default in (("--jobs", "1"), ("--timeout", "300"))}
    for name, text in numbers.items():
        if not is_number(text) or not 0 < int(text) <= 100_000:
            raise UsageError(f"csl coverage {name} {text[:40]!r}: expected a whole number from 1 on")
    report = Path(values["--report"]) if "--report" in values else None
    return Request(
        Path(folders[0]),
        report,
        int(numbers["--jobs"]),
        values.get("--only", ""),
        values.get("--arch", ""),
        float(numbers["--timeout"]),
        as_json,
    )


def run(arguments: Sequence[str]) -> int:
    """Run the command; return 0 if everything passes, 1 if not. Raises UsageError, OSError."""
    if arguments[:1] in (("--help",), ["--help"]):
        print(USAGE)
        return 0
    request = parse(arguments)
    scripts = [
        script
        for script in sorted(request.folder.rglob(SCRIPT_PATTERN))
        if request.only in str(script.relative_to(request.folder))
        and arch_of(script).startswith(request.arch)
    ]
    if not scripts:
        raise UsageError(f"{request.folder}: no {SCRIPT_PATTERN} in it fits the options")

    def attempt(script: Path) -> Outcome:
        outcome = try_program(script, request.folder, request.seconds)
        if not request.as_json:
            print(line_of(outcome), flush=True)
        return outcome

    with ThreadPoolExecutor(request.jobs) as pool:
        outcomes = list(pool.map(attempt, scripts))
    if request.report is not None:
        request.report.write_text(table(outcomes, request.folder.resolve().name), encoding="utf-8")
    if request.as_json:
        print(json.dumps([{**asdict(outcome), "seconds": round(outcome.seconds, 3)} for outcome in outcomes]))
    return 0 if all(outcome.kind == PASS for outcome in outcomes) else 1


def try_program(script: Path, root: Path, seconds: float) -> Outcome:
    """Run a program's script in a copy of its folder, and judge the result."""
    begin = time.perf_counter()
    program = str(script.parent.relative_to(root)) or "."
    with tempfile.TemporaryDirectory(prefix="npuviz-coverage-") as scratch:
        ran = run_script(script, Path(scratch), seconds)
        cycles = _cycles(ran.folder)
    kind, detail = judge(ran)
    return Outcome(program, arch_of(script), kind, time.perf_counter() - begin, cycles, detail)


def judge(ran: ScriptRun) -> tuple[str, str]:
    """Return the kind of outcome, and the line that tells why."""
    if ran.code is None:
        return TIMEOUT, ran.reason()
    if ran.code == 0 and not ran.failures:
        return PASS, ""
    places = (found.group(0) for found in _POSITION.finditer(ran.output))
    text = next((place for place in places if ": warning: " not in place), "")
    if text:
        return (UNSUPPORTED if _UNSUPPORTED.search(text) else FAILED), text[:300]
    if "AssertionError" in ran.output:
        return WRONG, ran.reason()
    return FAILED, ran.reason()


def _cycles(folder: Path) -> int:
    summaries = sorted(folder.rglob(f"{TRACE_FOLDER}/run.json"), key=lambda path: path.stat().st_mtime_ns)
    if not summaries:
        return -1
    return int(json.loads(summaries[-1].read_text(encoding="utf-8"))["cycles"])


def line_of(outcome: Outcome) -> str:
    """Return an outcome as one line of progress."""
    cycles = f"{outcome.cycles} cycles" if outcome.cycles >= 0 else ""
    return (
        f"{outcome.kind:11} {outcome.program:45} {outcome.arch:5} {outcome.seconds:6.1f} s  {cycles:16} "
        f"{outcome.detail}"
    ).rstrip()


def table(outcomes: Sequence[Outcome], name: str) -> str:
    """Return a page with one row per program and architecture."""
    passed = sum(outcome.kind == PASS for outcome in outcomes)
    lines = [
        "# CSL programs that run",
        "",
        f"Written by `npuviz csl coverage {name} --report docs/csl-coverage.md`: every program of the folder",
        "with its own command script and its own host program, unmodified, in a temporary copy. `pass`: the",
        "host program's own check is satisfied; `wrong`: it is not; `failed`: the compiler or the chip",
        "stopped; `unsupported`: the compiler names the place; `timeout`: not done in time. Cycles are those",
        f"of the last run. `{SDK_LAYOUT_MACRO}`, which some scripts hold in place of a command, is read as",
        "`cs_python run.py`.",
        "",
        f"{passed} of {len(outcomes)} pass.",
        "",
        "| program | architecture | result | cycles | seconds | why |",
        "| --- | --- | --- | ---: | ---: | --- |",
    ]
    for outcome in outcomes:
        cycles = str(outcome.cycles) if outcome.cycles >= 0 else ""
        detail = re.sub(r"/\S*/(?=[^/\s]+\.csl)", "", outcome.detail).replace("|", "\\|")
        detail = re.sub(r"^[\w.]*\.(?=\w+Error: )", "", detail)
        cells = (outcome.program, outcome.arch, outcome.kind, cycles, f"{outcome.seconds:.1f}", detail)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
