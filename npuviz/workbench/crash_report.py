"""Writes reports of internal errors to a local folder; nothing is sent anywhere."""

import platform
import tempfile
import traceback
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import platformdirs

from npuviz import __version__

MAX_REPORTS = 20


def report_directory() -> Path:
    """Return the folder of reports in the user's state folder of npuviz (in XDG_STATE_HOME); it may not
    exist."""
    return Path(platformdirs.user_state_dir("npuviz", appauthor=False)) / "reports"


def report_text(error: BaseException, arguments: Sequence[str] = ()) -> str:
    """Write a text about an unexpected exception: versions, arguments, traceback."""
    return "\n".join(
        [
            f"npuviz {__version__}, Python {platform.python_version()}, {platform.platform()}",
            f"arguments: {list(arguments)}",
            "",
            "".join(traceback.format_exception(error)),
        ]
    )


def write_report(error: BaseException, arguments: Sequence[str] = ()) -> Path | None:
    """Write a report about an unexpected exception to a file. Returns its path, None if writing fails."""
    folder = report_directory()
    text = report_text(error, arguments)
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            "w", prefix="report-", suffix=".txt", dir=folder, delete=False, encoding="utf-8"
        ) as file:
            file.write(text)
        _drop_oldest(folder)
        return Path(file.name)
    return None


def _drop_oldest(folder: Path) -> None:
    reports = sorted(folder.glob("report-*.txt"), key=lambda path: path.stat().st_mtime)
    for path in reports[:-MAX_REPORTS]:
        path.unlink(missing_ok=True)
