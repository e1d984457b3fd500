"""Explain why a wafer cannot continue and what went wrong, in sentences with source lines."""
