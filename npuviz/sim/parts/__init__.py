"""Provide hardware parts and tools that machines share: each works on words of the machine's root state.

May import base, program, trace; kernel files import kernel files only. A part is a header of words
(its configuration and counters) followed by its tables; a machine places it anywhere in its state
and passes the position.
"""
