"""Programs as text: one instruction a line, in both directions."""
