"""Checks whether a window can be shown, since Qt ends the process with no error line if it cannot."""

import ctypes
import os
import sys

from npuviz.base.errors import UsageError

BASE_LIBRARIES = {
    "libglib-2.0.so.0": "libglib2.0-0",
    "libGL.so.1": "libgl1",
    "libEGL.so.1": "libegl1",
    "libxkbcommon.so.0": "libxkbcommon0",
    "libdbus-1.so.3": "libdbus-1-3",
    "libfontconfig.so.1": "libfontconfig1",
}
"""Libraries of the system that Qt links to -> the package that has them on Debian and Ubuntu.

Source: `ldd` of libQt6Gui.so.6 in the wheel of PySide6 6.11; .ci/setup installs the same.
"""
X_LIBRARIES = {
    "libxcb-cursor.so.0": "libxcb-cursor0",
    "libxkbcommon-x11.so.0": "libxkbcommon-x11-0",
    "libxcb-icccm.so.4": "libxcb-icccm4",
    "libxcb-image.so.0": "libxcb-image0",
    "libxcb-keysyms.so.1": "libxcb-keysyms1",
    "libxcb-randr.so.0": "libxcb-randr0",
    "libxcb-render-util.so.0": "libxcb-render-util0",
    "libxcb-shape.so.0": "libxcb-shape0",
    "libxcb-sync.so.1": "libxcb-sync1",
    "libxcb-util.so.1": "libxcb-util1",
    "libxcb-xfixes.so.0": "libxcb-xfixes0",
    "libxcb-xkb.so.1": "libxcb-xkb1",
    "libX11-xcb.so.1": "libx11-xcb1",
}
"""The same for windows on an X server. Source: `ldd` of libQt6XcbQpa.so.6."""
WITHOUT = "`npuviz shot` writes a picture and `npuviz debug` works without a window"


def check_display() -> None:
    """Raise UsageError if Qt cannot show a window here; it says what is missing and what to do.

    Checks on Linux only, where Qt ends the process instead of raising; QT_QPA_PLATFORM is respected.
    """
    if not sys.platform.startswith("linux"):
        return
    platform = os.environ.get("QT_QPA_PLATFORM", "").partition(":")[0].partition(";")[0]
    has_wayland = bool(os.environ.get("WAYLAND_DISPLAY"))
    display = os.environ.get("DISPLAY", "")
    uses_x = platform == "xcb" or (not platform and not has_wayland)
    if uses_x and not display:
        raise UsageError(f"no display: neither DISPLAY nor WAYLAND_DISPLAY is set; {WITHOUT}")
    _check_libraries({**BASE_LIBRARIES, **(X_LIBRARIES if uses_x else {})})
    if uses_x and not _answers():
        raise UsageError(f"no display: the X server {display!r} (DISPLAY) does not answer; {WITHOUT}")


def _check_libraries(libraries: dict[str, str]) -> None:
    missing = {name: package for name, package in libraries.items() if not _is_there(name)}
    if missing:
        raise UsageError(
            f"Qt cannot show a window without {', '.join(missing)}; "
            f"on Debian or Ubuntu: apt install {' '.join(missing.values())}; {WITHOUT}"
        )


def _is_there(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def _answers() -> bool:
    """Return whether the X server of DISPLAY accepts a connection."""
    xcb = ctypes.CDLL("libxcb.so.1")
    xcb.xcb_connect.restype = ctypes.c_void_p
    connection = ctypes.c_void_p(xcb.xcb_connect(None, None))
    has_failed = bool(xcb.xcb_connection_has_error(connection))
    xcb.xcb_disconnect(connection)
    return not has_failed
