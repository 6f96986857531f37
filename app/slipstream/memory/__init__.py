"""Does target and draft fit? Grows with the memory planner."""
