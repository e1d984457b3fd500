"""Compiler and host programs start often, in processes of their own: neither loads what the other needs."""

import subprocess
import sys


def loaded(module: str, *asked: str) -> list[bool]:
    code = f"import sys, {module}\nprint(*[each in sys.modules for each in {asked}])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return [word == "True" for word in found.stdout.split()]


def test_the_compiler_loads_no_kernels():
    code = "npuviz.targets.wavelet.csl.compiler"
    assert loaded("npuviz.targets.wavelet.load.compiled", "numba", "lark", code) == [False] * 3
    assert loaded(code, "numba", "lark") == [False, True]


def test_a_host_program_loads_no_compiler():
    asked = "numba", "npuviz.targets.wavelet.csl.syntax.tree"
    assert loaded("npuviz.targets.wavelet.host.runtime", *asked) == [True, False]
