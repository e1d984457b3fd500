"""npuviz dap: the server for editors."""

from typing import Annotated

import typer


def command(
    port: Annotated[
        int,
        typer.Option(
            "--port",
            metavar="N",
            min=-1,
            max=65535,
            help="Listen on this port of the loopback interface, 0 for any; -1: standard input and output.",
        ),
    ] = -1,
) -> None:
    """Serve the Debug Adapter Protocol to an editor, and end with it.

    Reached by a port, the client's `launch` needs the token that is printed (or set in NPUVIZ_DAP_TOKEN).
    """
    from npuviz.protocols.dap.server import serve_port, serve_stdio

    if port < 0:
        serve_stdio()
    else:
        serve_port(port)
