"""Speculation measured against plain decoding: prompts, runs, report and advice."""
