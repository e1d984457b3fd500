"""The wafer machine behind the contract: its words, its engine, its threads."""
