"""Why a wafer cannot go on and what went wrong, in sentences with their source line."""
