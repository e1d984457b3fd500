"""What one task does and what it costs, from its registers alone."""
