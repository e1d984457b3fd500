"""NeuronCore: NEFF files, and ONNX models compiled to NEFF.

May import sim, formats, program, trace and base. A new instruction starts in `isa.py`, its cost in
`costs.py`, what it computes in `values_*.py`; a new operator in `compiler/<family>.py`.
"""
