"""What must hold over hours and accidents, tried for hours and by accidents; see docs/reliability.md."""
