"""Plain frozen data and pure rules; standard library only."""
