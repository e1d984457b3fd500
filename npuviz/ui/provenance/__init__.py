"""What bytes were made from and who uses them, as trees to walk."""
