"""The running machine: its words, what they are made from, and the one way to move them."""
