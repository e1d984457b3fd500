"""npuviz neff: take a NEFF apart, put it together, check it."""

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from npuviz.cli.kit import options


class Action(StrEnum):
    """What to do with the NEFF."""

    UNPACK = "unpack"
    PACK = "pack"
    CHECK = "check"


Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="limit=BYTES", help="Most content to accept; default: 4GiB."),
]


def command(
    action: Annotated[Action, typer.Argument(help="What to do.")],
    path: Annotated[Path, typer.Argument(help="NEFF file; for pack the folder of an unpacked one.")],
    out: Annotated[Path | None, typer.Option("-o", "--out", help="Folder (unpack) or file (pack).")] = None,
    plain: Annotated[bool, typer.Option("--plain", help="pack: leave the archive uncompressed.")] = False,
    settings: Settings = None,
    as_json: options.Json = False,
) -> int:
    """Unpack a NEFF into a folder, pack a folder, or check a NEFF; exit code 1 when a rule is broken."""
    from npuviz.base.errors import UsageError
    from npuviz.workbench.arguments import parse_settings
    from npuviz.workbench.headless import neff as neff_files

    limit = neff_files.parse_limit(parse_settings(settings or ()))
    if plain and action != Action.PACK:
        raise UsageError(f"--plain: only for pack, not for {action.value}")
    if action == Action.CHECK:
        if out is not None:
            raise UsageError("-o: check writes nothing")
        checked = neff_files.check(path, limit)
        found = neff_files.check_object(path, checked)
        typer.echo(json.dumps(found) if as_json else neff_files.check_text(path, checked.findings))
        return 1 if checked.errors else 0
    if out is None:
        raise UsageError(f"{action.value}: say with -o where to")
    if action == Action.UNPACK:
        neff = neff_files.unpack(path, out, limit)
        found = {"folder": str(out), "members": len(neff.members)}
        text = f"{len(neff.members)} members in {out}"
    else:
        packed = neff_files.pack(path, out, limit, plain)
        found = {"file": str(out), "members": len(packed.neff.members), "missing": packed.missing}
        found["changed"] = packed.is_changed
        text = f"{len(packed.neff.members)} members in {out}"
        if packed.missing:
            text += f"; no longer there: {', '.join(packed.missing)[:200]}"
    typer.echo(json.dumps(found) if as_json else text)
    return 0
