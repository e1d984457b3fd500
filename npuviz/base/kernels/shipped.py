"""Load and run the machine code of kernels that comes with the package, until code for this processor is
compiled.

It was made for every processor of one kind (`shipping`), and may be slower than what a helper compiles here;
the results are the same. Code made from other sources, for another numba or another kind of computer is
ignored.
"""

import ctypes
import hashlib
import json
import platform
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numba
import numpy as np

from npuviz.base.kernels.sources import FOLDER, digest_of_sources

SUFFIX = ".code"
WORDS, NUMBER = "w", "n"
"""Letters for arguments of kernels: an array of words, a number."""
MOST_BYTES = 1 << 26
_DIGEST_BYTES = 16
_WORD_BYTES = 8
_LARGEST = 1 << 63
_NUMBER, _PLACE = ctypes.c_int64, ctypes.c_void_p
_OF_WORDS = (_PLACE, _PLACE, _NUMBER, _NUMBER, _PLACE, _NUMBER, _NUMBER)
"""Types of the parameters that numba makes of an array: owner, object, items, bytes of an item, data, shape,
strides."""


def made_for() -> str:
    """Return the text that code must carry to run here: the kind of computer, the version of numba, the
    digest of the sources."""
    machine = platform.machine().lower().replace("amd64", "x86_64")
    return f"{sys.platform} {machine} numba {numba.__version__} {digest_of_sources()}"


def file_of(folder: Path, module: str, name: str) -> Path:
    """Return the path of the file that holds the code of a kernel."""
    return folder / f"{module}.{name}{SUFFIX}"


def write(path: Path, symbol: str, code: bytes) -> None:
    """Write the object code of a kernel, whose function is called `symbol`, with its checksum. Raises
    OSError."""
    packed = zlib.compress(code, 9)
    header = {"made_for": made_for(), "symbol": symbol, "digest": _digest_of(packed)}
    path.write_bytes(json.dumps(header).encode() + b"\n" + packed)


def is_current(path: Path) -> bool:
    """Whether a file holds undamaged code for this computer and these sources."""
    return _read(path) is not None


def load(module: str, name: str, arguments: str) -> Callable[..., Any] | None:
    """Return the kernel of the package as a function of such arguments, None if the package has no code for
    here."""
    found = _read(file_of(FOLDER, module, name))
    if found is None:
        return None
    symbol, code = found
    try:
        return _function(_Loaded(code), symbol, arguments)
    except (RuntimeError, OSError):
        return None  # LLVM cannot load the code


def _read(path: Path) -> tuple[str, bytes] | None:
    try:
        with path.open("rb") as file:
            header = json.loads(file.readline(1 << 16))
            packed = file.read(MOST_BYTES)
        if header["made_for"] != made_for() or header["digest"] != _digest_of(packed):
            return None
        return str(header["symbol"]), zlib.decompress(packed)
    except (OSError, ValueError, KeyError, TypeError, zlib.error):
        return None


def _digest_of(packed: bytes) -> str:
    return hashlib.blake2b(packed, digest_size=_DIGEST_BYTES).hexdigest()


class _Loaded:
    """Object code in memory; it stays there as long as this object lives."""

    def __init__(self, code: bytes) -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        target = target_machine()
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target)
        self._engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        self._engine.finalize_object()

    def address(self, symbol: str) -> int:
        """Return the address of a function. Raises RuntimeError if there is none of that name."""
        address = self._engine.get_function_address(symbol)
        if not address:
            raise RuntimeError(f"no {symbol}")
        return address


def target_machine() -> Any:
    """Return LLVM's target for every processor of this kind, with the options with which numba generates
    code."""
    is_x86 = platform.machine().lower() in ("x86_64", "amd64")
    return llvm.Target.from_default_triple().create_target_machine(
        opt=2, reloc="static" if is_x86 else "default", codemodel="jitdefault", jit=True
    )


def _function(loaded: _Loaded, symbol: str, arguments: str) -> Callable[..., Any]:
    """Return a Python function that calls the symbol with the calling convention of numba's compiled code."""
    kinds: list[Any] = [_PLACE, _PLACE]
    for letter in arguments:
        kinds += _OF_WORDS if letter == WORDS else (_NUMBER,)
    native = ctypes.CFUNCTYPE(ctypes.c_int32, *kinds)(loaded.address(symbol))

    def call(*args: Any) -> int:
        result, failure = _NUMBER(0), _PLACE(None)
        words: list[Any] = [ctypes.addressof(result), ctypes.addressof(failure)]
        for letter, value in zip(arguments, args, strict=True):
            words += _words_of(value) if letter == WORDS else (int(value),)
        status = native(*words)
        if status:
            raise RuntimeError(f"{symbol[:60]}: status {status}")
        return result.value

    call.__dict__["loaded"] = loaded  # the code stays in memory as long as this function
    return call


def _words_of(array: np.ndarray) -> tuple[Any, ...]:
    return (None, None, array.size, _WORD_BYTES, array.ctypes.data, array.size, _WORD_BYTES)


_EXAMPLE = np.zeros(0, np.int64)


def example_of(letter: str) -> Any:
    """Return an argument of the type that a letter stands for."""
    return _EXAMPLE if letter == WORDS else 0


def fits(arguments: str, args: tuple[Any, ...]) -> bool:
    """Whether arguments have the types that the letters of `arguments` stand for."""
    return len(arguments) == len(args) and all(map(_is_one, arguments, args))


def _is_one(letter: str, value: Any) -> bool:
    if letter == NUMBER:
        return type(value) in (int, np.int64) and -_LARGEST <= value < _LARGEST
    is_line = isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype == np.int64
    return is_line and value.flags.c_contiguous and value.flags.writeable
