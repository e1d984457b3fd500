"""`npuviz compile`: compiles a model to a file of a target's own format."""

from pathlib import Path

from npuviz.base.errors import UnknownTarget, UsageError
from npuviz.base.progress import NoProgress, Progress
from npuviz.sim.target import Compiles, LoadRequest
from npuviz.workbench.choosing import choose_target, targets
from npuviz.workbench.opening import OpenOptions


def compile_file(
    path: Path, out: Path, options: OpenOptions | None = None, progress: Progress | None = None
) -> str:
    """Compile a model to a file of a kind that a target writes; returns a sentence about it.

    The target is `options.target`, else the one that writes such files and takes such models. The
    file appears whole or not at all. Raises NpuvizError, or OSError from writing.
    """
    chosen = options or OpenOptions()
    if not path.is_file():
        raise UsageError(f"{path}: {'a folder' if path.is_dir() else 'no such file'}; expected a model")
    target = _named_target(chosen.target, path, out) if chosen.target else _found_target(path, out)
    _check_place(path, out)
    request = LoadRequest(path, chosen.preset, chosen.config, chosen.settings)
    return target.compile(request, out, progress or NoProgress())


def _kind_of(target: Compiles, out: Path) -> str:
    """Return the suffix of `compiled_kinds` that a file's name ends with, "" if the target writes no such
    files."""
    name = out.name.lower()
    return next((kind for kind in target.compiled_kinds if name.endswith(kind) and name != kind), "")


def _kinds(target: Compiles) -> str:
    return ", ".join(f"*{suffix} ({text})" for suffix, text in target.compiled_kinds.items())


def _named_target(name: str, path: Path, out: Path) -> Compiles:
    target = choose_target(path, name)
    if not isinstance(target, Compiles):
        writers = [each.id for each in targets().values() if isinstance(each, Compiles)]
        raise UsageError(f"--target {name} writes no files; these do: {', '.join(writers) or 'none'}")
    if not _kind_of(target, out):
        raise UsageError(f"-o {out}: {name} writes {_kinds(target)}")
    return target


def _found_target(path: Path, out: Path) -> Compiles:
    writers = [each for each in targets().values() if isinstance(each, Compiles)]
    fitting = [each for each in writers if _kind_of(each, out)]
    if not fitting:
        kinds = "; ".join(_kinds(each) for each in writers) or "nothing"
        raise UsageError(f"-o {out}: its name does not say what to write; targets write {kinds}")
    for each in fitting:
        if path.suffix.lower() in _models(each):
            return each
    taken = ", ".join(sorted({f"*{suffix}" for each in fitting for suffix in _models(each)}))
    raise UnknownTarget(f"{path}: cannot be compiled to {out.name}; expected {taken}")


def _models(target: Compiles) -> list[str]:
    """Return the suffixes of the files that a target compiles: those it takes and does not write."""
    return [suffix for suffix in target.file_kinds if suffix not in target.compiled_kinds]


def _check_place(path: Path, out: Path) -> None:
    if not out.parent.is_dir():
        raise UsageError(f"-o {out}: there is no folder {out.parent}")
    if out.exists() and not out.is_file():
        raise UsageError(f"-o {out}: expected a file to write, found something else there")
    if out.exists() and out.samefile(path):
        raise UsageError(f"-o {out}: that is the model itself")
