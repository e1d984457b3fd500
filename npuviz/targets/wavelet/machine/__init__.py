"""Run a wafer behind the machine contract: state and program words, engine, threads."""
