"""NeuronCore: NEFF files, and ONNX models compiled to NEFF.

May import sim, formats, onnx, program, trace and base. For a new instruction, add it to `isa.py`, its cost
to `costs/table.py` and its results to `values/`; for a new operator, a lowering to `compiler/operators/`.
"""
