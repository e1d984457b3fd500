"""Runs language models on a machine: a prompt, then token by token."""
