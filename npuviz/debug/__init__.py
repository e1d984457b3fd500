"""Debug programs: sessions that can be at any cycle of a run, breakpoints, explanations. Uses no window.

May import sim, formats, program, trace and base. A new thing a breakpoint can say goes to
`condition/`, a new command of the text debugger to `console/`; where and when checkpoints are kept is
decided in `timeline` alone.
"""
