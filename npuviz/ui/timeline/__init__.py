"""The timeline: what every unit did, when, and why it waited."""
