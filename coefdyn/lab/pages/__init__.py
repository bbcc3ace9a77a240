"""Markdown of the book's generated pages: evidence, captions, benchmark tables."""
