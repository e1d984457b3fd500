"""Language models: a prompt and the tokens after it, step by step on a machine."""
