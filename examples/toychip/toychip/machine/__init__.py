"""The machine behind the contract."""
