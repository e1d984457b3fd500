"""Texts that files give are shown as they are: Qt would take those with tags for HTML."""

from html import escape


class Markup(str):
    """Text that npuviz made as HTML, with everything that a file gave escaped in it."""

    __slots__ = ()


def plain_tip(text: str) -> str:
    """A text for a tooltip that shows every letter of it; Markup stays what it is."""
    if isinstance(text, Markup) or "<" not in text:
        return text
    return f"<qt>{escape(text).replace(chr(10), '<br>')}</qt>"
