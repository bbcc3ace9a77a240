"""Tools behind `make`: execute chapters, normalise notebooks, build the pages, keep the pins."""

import sys

# With this package jsonschema, which nbformat imports, compiles a grammar of addresses: 2.5 seconds
# in every process, and the schema of a notebook has no address in it. None says: not installed.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
