"""Make icons by name in the colours of the theme, from QtAwesome's bundled fonts."""

from PySide6.QtGui import QIcon

from npuviz.ui.theme.theme import Theme


def icon(name: str, theme: Theme, role: str = "text") -> QIcon:
    """Return an icon such as "mdi6.play" in the colour of a role; an empty icon for an unknown name."""
    # Loaded here: the fonts cost 100 ms that the first frame of the window need not wait for.
    import qtawesome

    if not name:
        return QIcon()
    try:
        return qtawesome.icon(
            name, color=theme.color(role).name(), color_disabled=theme.color("text-disabled").name()
        )
    except Exception:  # qtawesome raises bare Exception for a name its fonts do not hold
        return QIcon()
