"""Rules of the documentation that calls are held against, generation 2."""
