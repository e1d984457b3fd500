"""Compare computed tensors with a reference, and find the first wrong instruction."""
