"""The machine contract, and the hardware parts that machines share.

May import base, program and trace. A part that two targets need goes to `sim/parts`.
"""
