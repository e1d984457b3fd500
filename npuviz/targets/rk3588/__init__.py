"""Run programs for the RK3588 NPU: register commands, task lists and .rknn files, and ONNX models compiled to
them.

May import sim, formats, program, trace and base. What a task does is decoded from its registers alone
(`task/work.py`), so that a stream from elsewhere runs the same way as one of npuviz's own compiler.
"""
