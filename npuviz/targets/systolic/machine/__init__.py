"""The machine behind the contract: engine, initial state and program words, and runs ahead of time."""
