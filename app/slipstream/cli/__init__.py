"""The command line: parsing and printing, without a window."""
