"""Rewrites operators of language models, recurrent ones and others with plainer operators of the standard."""
