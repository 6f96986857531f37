"""The speculative loop and what feeds it."""
