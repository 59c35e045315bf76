# SPDX-License-Identifier: Apache-2.0
"""Reads the results of roofbench: tables, verdicts, A B B A comparisons and pictures.

The layers, each of which sees those before it: io (files and what is in them), history (the database of runs), stats
(tests and fits), compare (pairs and groups of results), gate (changes in a nightly run), render (tables, pictures,
pages), site (the history as pages), verbs (the command line).
"""
