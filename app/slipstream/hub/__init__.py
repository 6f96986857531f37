"""The model hub. Grows with the models page."""
