"""What a wheel brings of this target beside code of kernels: the tables of the grammar of CSL."""

from pathlib import Path

from npuviz.targets.wavelet.csl.syntax.parser import tables_file, write_tables


def make(folder: Path) -> list[Path]:
    """Make what is missing in a folder; returns all that belongs there. Raises OSError."""
    path = tables_file(folder)
    if not path.exists():
        write_tables(path)
    return [path]
