"""A training loop that can be watched, steered and stopped: history, controls, measures of gradients, kept states. No widget code."""
