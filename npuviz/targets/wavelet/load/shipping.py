"""Make what a wheel contains for this target beside compiled kernels: the tables of the CSL grammar."""

from pathlib import Path

from npuviz.targets.wavelet.csl.syntax.parser import tables_file, write_tables


def make(folder: Path) -> list[Path]:
    """Make the files that are missing in a folder; return all that belong there. Raises OSError."""
    path = tables_file(folder)
    if not path.exists():
        write_tables(path)
    return [path]
