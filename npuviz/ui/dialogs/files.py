"""Ask the user for files to open, to save and to export to."""

from collections.abc import Mapping
from pathlib import Path

from PySide6.QtWidgets import QFileDialog, QWidget


def ask_files_to_open(parent: QWidget, kinds: Mapping[str, str], folder: Path) -> list[Path]:
    """Let the user pick model files; `kinds` is suffix -> description. Empty when dismissed."""
    patterns = " ".join(f"*{suffix}" for suffix in kinds)
    filters = [f"Models ({patterns})"] if patterns else []
    filters += [f"{text} (*{suffix})" for suffix, text in kinds.items()]
    filters.append("All files (*)")
    names, _ = QFileDialog.getOpenFileNames(parent, "Open a model", str(folder), ";;".join(filters))
    return [Path(name) for name in names]


def ask_bundle_to_open(parent: QWidget, folder: Path) -> Path | None:
    """Let the user pick the folder of a trace bundle; None when dismissed."""
    name = QFileDialog.getExistingDirectory(parent, "Open a trace bundle", str(folder))
    return Path(name) if name else None


def ask_export(parent: QWidget, suffixes: Mapping[str, str], proposal: Path) -> tuple[str, Path] | None:
    """Let the user pick a file; return (exporter, path), None when dismissed.

    suffixes  exporter name -> suffix
    """
    filters = {f"{name} (*{suffix})": name for name, suffix in suffixes.items()}
    file, chosen = QFileDialog.getSaveFileName(parent, "Export the trace", str(proposal), ";;".join(filters))
    if not file:
        return None
    path = Path(file)
    name = next((n for n, suffix in suffixes.items() if path.name.endswith(suffix)), filters.get(chosen, ""))
    if not name:
        return None
    if not path.suffix:
        path = path.with_name(path.name + suffixes[name])
    return name, path


def ask_session_to_save(parent: QWidget, proposal: Path, suffix: str) -> Path | None:
    """Let the user pick the file of a session; None when dismissed."""
    name, _ = QFileDialog.getSaveFileName(parent, "Save the session", str(proposal), f"Sessions (*{suffix})")
    if not name:
        return None
    return Path(name) if name.endswith(suffix) else Path(name + suffix)


def ask_file_like(parent: QWidget, name: str, folder: Path) -> Path | None:
    """Let the user pick the file of this name, or another one; None when dismissed."""
    found, _ = QFileDialog.getOpenFileName(
        parent, f"Where is {name}?", str(folder), f"{name} ({name});;All files (*)"
    )
    return Path(found) if found else None
