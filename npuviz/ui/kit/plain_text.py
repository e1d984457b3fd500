"""Show texts from files literally in tooltips: Qt would render those with tags as HTML."""

from html import escape


class Markup(str):
    """HTML that npuviz made, in which every text from a file is already escaped."""

    __slots__ = ()


def plain_tip(text: str) -> str:
    """Return a text for a tooltip that shows every letter of it; Markup is returned unchanged."""
    if isinstance(text, Markup) or "<" not in text:
        return text
    return f"<qt>{escape(text).replace(chr(10), '<br>')}</qt>"
