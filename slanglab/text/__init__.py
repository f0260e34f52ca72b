"""Reading Slang: clean text, words, declarations, imports, indices; places in a text and messages about them."""
