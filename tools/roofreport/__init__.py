"""Reads the results of roofbench: tables, verdicts, A B B A comparisons and pictures."""
