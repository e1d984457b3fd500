"""npuviz targets: machines, presets and the files they take."""

import json

import typer

from npuviz.cli.kit import options


def command(as_json: options.Json = False) -> None:
    """List the machines, their presets and the files they accept."""
    from npuviz.workbench.headless.info import describe_targets, targets_text

    found = describe_targets()
    typer.echo(json.dumps(found) if as_json else targets_text(found))
