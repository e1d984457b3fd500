"""Run an RK3588 NPU behind the machine contract: engine, initial state and program words."""
