"""Schema of session files as pydantic models. Import it late: pydantic takes a tenth of a second."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

MAX_TEXT = 4096
MAX_BREAKPOINTS = 1000
MAX_BOOKMARKS = 1000
MAX_PANELS = 200

Text = Annotated[str, Field(max_length=MAX_TEXT, pattern=r"^[^\x00-\x1f]*$")]
Digest = Annotated[str, Field(pattern=r"^([0-9a-f]{64})?$")]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class StoredSource(_Strict):
    """A file or folder."""

    role: Literal["model", "config"]
    path: Annotated[Text, Field(min_length=1)]
    sha256: Digest = ""


class StoredStop(_Strict):
    """A breakpoint."""

    condition: Text
    enabled: bool = True


class StoredLayout(_Strict):
    """The panels that are shown; the stored state of each panel is validated by the panel."""

    name: Text = ""
    shown: Annotated[list[Text], Field(max_length=MAX_PANELS)] = Field(default_factory=list)
    panels: Annotated[dict[Text, dict[str, Any]], Field(max_length=MAX_PANELS)] = Field(default_factory=dict)


class StoredSession(_Strict):
    """The whole file. Bookmarks are validated one by one in `read_bookmarks`."""

    npuviz_session: Literal[1]
    sources: Annotated[list[StoredSource], Field(min_length=1, max_length=2)]
    target: Text = ""
    preset: Text = ""
    settings: dict[Text, Text] = Field(default_factory=dict)
    seed: Annotated[int, Field(ge=0)] = 0
    cycle: Annotated[int, Field(ge=0, le=1 << 62)] = 0
    breakpoints: Annotated[list[StoredStop], Field(max_length=MAX_BREAKPOINTS)] = Field(default_factory=list)
    bookmarks: Annotated[list[dict[str, Any]], Field(max_length=MAX_BOOKMARKS)] = Field(default_factory=list)
    layout: StoredLayout = Field(default_factory=StoredLayout)
