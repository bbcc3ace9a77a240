"""Reading a trace: numbers per head, tables, one page of text, and what survives in memory."""
