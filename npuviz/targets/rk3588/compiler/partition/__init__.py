"""Decide which layers the NPU runs and which the Host: what both take, what changing sides costs, the best
cut."""
