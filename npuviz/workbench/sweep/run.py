"""One run of a sweep, as a worker process does it, and the small file that keeps its result."""

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
"""What of a run's summary is kept."""


def opening_of(run: SweepRun) -> OpenOptions:
    """How the model of a run is opened."""
    config = Path(run.config) if run.config else None
    return OpenOptions(run.target, run.preset, config, dict(run.settings), seed=run.seed)


def run_one(run: SweepRun) -> RunResult:
    """Run it, without a trace. Raises nothing but KeyboardInterrupt."""
    # Late: a client that only hands out runs need not load the engines.
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
    """Results of a sweep in a folder, a file each, named after the run's key; a file is whole or absent."""

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
        """The result of a key, None if there is none or the file is damaged."""
        try:
            content = json.loads((self.folder / f"{key}.json").read_text(encoding="utf-8"))
            summary = content["summary"]
            if not isinstance(summary, dict) or content["status"] not in (DONE, FAILED, BROKEN):
                return None
            return RunResult(content["status"], summary, str(content["error"]), bool(content["is_usage"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None
