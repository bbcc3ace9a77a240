"""method="chunked": cost linear in L for linear readouts, memory linear in L for all others."""
