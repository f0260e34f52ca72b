"""Calls as functions of float arrays, and what evaluates them: the check of the first backward call, and `gradcheck`."""
