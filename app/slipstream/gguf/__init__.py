"""GGUF headers. Grows with the memory planner."""
