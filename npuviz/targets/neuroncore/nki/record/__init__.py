"""What a kernel's Python did: tensors, index tensors, the recorded steps."""
