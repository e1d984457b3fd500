"""What is to be run: immutable data, independent of any machine's behaviour.

May import base only. A new kind of program data gets a file of its own here.
"""
