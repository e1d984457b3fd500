"""Provide the public API: a program opens a model or a trace, moves in time and asks questions;
see docs/automation.md.

`npuviz.open` and the other names of `npuviz` come from here, imported when they are first used. Servers
(`npuviz.protocols`) and tests (`npuviz.testing`) are built on it. Everything that the text debugger answers
is a method or `do` of a DebugSession; a new command needs no change here.
"""

from npuviz.api.opening import OpenArguments, open_session
from npuviz.api.picture import Picture
from npuviz.api.races import races
from npuviz.api.session import DebugSession
from npuviz.debug.console.answer import Answer

__all__ = ["Answer", "DebugSession", "OpenArguments", "Picture", "open_session", "races"]
