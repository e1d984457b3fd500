"""The machine behind the contract: engine, initial state and program words."""
