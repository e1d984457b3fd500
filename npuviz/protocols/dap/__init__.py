"""The Debug Adapter Protocol server: `npuviz dap`, for editors.

`wire` reads and writes messages, `server` serves standard input and output or a port, `adapter` answers
requests in turn with the help of the other files: `launch` opens, `breakpoints` keeps a client's breakpoints,
`motion` runs and steps, `places` maps threads, frames and sources, `variables` reads values, `memory` reads
and writes bytes and lists instructions.
"""
