"""Operators of language models and recurrent ones, written with plainer operators of the standard."""
