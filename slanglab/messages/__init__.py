"""Messages: what the compiler and slangpy say, as objects, and what to do about it."""
