"""Names that host programs import."""
