"""The Debug Adapter Protocol server: `npuviz dap`, for editors.

`wire` reads and writes messages, `server` has the two ways to reach it, `adapter` answers requests in turn:
`launch` opens, `breakpoints` keeps what a client set, `motion` runs and steps, `places` names threads,
frames and texts, `variables` what they hold, `memory` bytes and instructions.
"""
