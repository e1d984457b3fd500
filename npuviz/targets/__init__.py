"""Plug-ins, one folder per kind of machine; found by entry point, never imported by name.

May import base, program, trace, formats and sim. A target never imports another one; a new one gets a
folder of its own and a line under `npuviz.targets` in pyproject.toml.
"""
