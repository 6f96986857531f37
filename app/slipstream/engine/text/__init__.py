"""Text in and out of the loop: chat templates, streaming decode, stop strings, reasoning, context overflow.

Import from the modules: the template's child process imports this package and must stay quick to start.
"""
