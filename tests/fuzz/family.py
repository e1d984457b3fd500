"""A family of inputs, and what came of one of them."""

import hashlib
import importlib
import pkgutil
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from types import TracebackType

from npuviz.base.errors import Cancelled, NpuvizError, SimulationError

FAMILIES = "tests.fuzz.families"
CORPUS = Path(__file__).parent / "corpus"
LONGEST_ERROR = 1000
"""Characters that one line of error may have, its path included."""


@dataclass(frozen=True)
class Family:
    """See tests.fuzz for what the members mean."""

    name: str
    suffix: str
    share: int
    seeds: Callable[[], Sequence[bytes]]
    mutate: Callable[[bytes, Random], bytes]
    attempt: Callable[[Path], object]
    prepare: Callable[[], None]

    def pool(self, corpus: Path = CORPUS) -> list[bytes]:
        """The seeds and what was found earlier."""
        kept = sorted((corpus / self.name).glob("*")) if (corpus / self.name).is_dir() else []
        return [*self.seeds(), *(path.read_bytes() for path in kept)]

    def outcome(self, path: Path) -> "Outcome":
        """What comes of one input."""
        try:
            self.attempt(path)
        except Cancelled as error:
            return Outcome("cancelled", "", str(error))
        except SimulationError as error:
            return Outcome("leak", signature(error), str(error))
        except NpuvizError as error:
            text = str(error)
            if "\n" in text or len(text) > LONGEST_ERROR:
                return Outcome("leak", f"NotOneLine-{signature(error)}", text)
            return Outcome("error", "", text)
        except Exception as error:
            return Outcome("leak", signature(error), f"{type(error).__name__}: {error}")
        return Outcome("taken")


@dataclass(frozen=True)
class Outcome:
    """kind "taken", "error", "cancelled", "leak", "hang" or "crash"; where it comes from; what was said."""

    kind: str
    signature: str = ""
    text: str = ""

    @property
    def is_fault(self) -> bool:
        """Whether something has to be mended."""
        return self.kind not in ("taken", "error", "cancelled")


def load(name: str, package: str = FAMILIES) -> Family:
    """The family of that name."""
    module = importlib.import_module(f"{package}.{name}")
    prepare: Callable[[], None] = getattr(module, "prepare", lambda: None)
    return Family(name, module.SUFFIX, module.SHARE, module.seeds, module.mutate, module.attempt, prepare)


def names(package: str = FAMILIES) -> list[str]:
    """All families."""
    return sorted(info.name for info in pkgutil.iter_modules(importlib.import_module(package).__path__))


def signature(error: BaseException) -> str:
    """The type of an exception and the function of npuviz it comes from: equal for one fault."""
    frames = _frames(error.__traceback__)
    if isinstance(error, RecursionError) and frames:
        frames = [Counter(frames).most_common(1)[0][0]]
    return "-".join([type(error).__name__, *frames[-1:]])


def _frames(trace: TracebackType | None) -> list[str]:
    return [
        f"{Path(frame.filename).stem}.{frame.name}"
        for frame in traceback.extract_tb(trace)
        if "/npuviz/" in frame.filename and "/site-packages/" not in frame.filename
    ]


def keep(corpus: Path, family: Family, outcome: Outcome, data: bytes) -> Path:
    """Write an input that shows a fault; the name says which one."""
    readable = "".join(c if c.isalnum() or c in "-._" else "_" for c in outcome.signature)[:80]
    name = f"{outcome.kind}-{readable}-{hashlib.sha256(data).hexdigest()[:8]}{family.suffix}"
    path = corpus / family.name / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path
