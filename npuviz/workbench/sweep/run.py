"""Executes one run of a sweep in a worker process, and stores its result in a small file."""

import json
import os
import traceback
from dataclasses import asdict, replace
from pathlib import Path

from npuviz.base.errors import NpuvizError, UnknownTarget, UsageError
from npuviz.workbench.opening import OpenOptions
from npuviz.workbench.sweep.plan import SweepRun
from npuviz.workbench.sweep.results import BROKEN, DONE, FAILED, RunResult

KEPT = ("cycles", "stop", "seconds", "events", "units", "queues", "memories", "counters", "check")
"""Keys of a run's summary that are stored."""


def opening_of(run: SweepRun) -> OpenOptions:
    """Return the options to open the model of a run with."""
    config = Path(run.config) if run.config else None
    return OpenOptions(run.target, run.preset, config, dict(run.settings), seed=run.seed)


def run_one(run: SweepRun) -> RunResult:
    """Execute a run without a trace; errors become its result. Raises nothing but KeyboardInterrupt."""
    # Imported late: a client that only hands out runs need not load the engines.
    from npuviz.workbench.headless.exit_codes import EXIT_DONE
    from npuviz.workbench.headless.run import RunOptions, run_model

    opening = replace(opening_of(run), is_recording=False)
    try:
        result = run_model(Path(run.model), RunOptions(opening, run.until))
    except NpuvizError as error:
        return RunResult(FAILED, {}, _line(str(error)), isinstance(error, UsageError | UnknownTarget))
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(where.filename).name}:{where.lineno}"
        return RunResult(BROKEN, {}, _line(f"internal error: {type(error).__name__}: {error} ({place})"))
    summary = {name: result.summary[name] for name in KEPT}
    if result.exit_code != EXIT_DONE:
        reason, detail = result.summary["exit"]["reason"], summary["stop"]["detail"]
        return RunResult(FAILED, summary, _line(f"{reason}: {detail}" if detail else reason))
    return RunResult(DONE, summary)


def _line(text: str) -> str:
    return " ".join(text.split())[:500]


class RunStore:
    """Stores results of a sweep in a folder, one file per run, named after its key; a file is whole or
    absent."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "runs"

    def keep(self, key: str, run: SweepRun, result: RunResult) -> None:
        """Write a result. Raises OSError."""
        self.folder.mkdir(parents=True, exist_ok=True)
        content = {"model": run.model, **asdict(result)}
        temporary = self.folder / f".{key}.{os.getpid()}.tmp"
        temporary.write_text(json.dumps(content), encoding="utf-8")
        temporary.replace(self.folder / f"{key}.json")

    def find(self, key: str) -> RunResult | None:
        """Return the result of a key, None if there is none or the file is damaged."""
        try:
            content = json.loads((self.folder / f"{key}.json").read_text(encoding="utf-8"))
            summary = content["summary"]
            if not isinstance(summary, dict) or content["status"] not in (DONE, FAILED, BROKEN):
                return None
            return RunResult(content["status"], summary, str(content["error"]), bool(content["is_usage"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None
