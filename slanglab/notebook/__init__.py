"""The IPython side: extension, magics and display hooks."""
