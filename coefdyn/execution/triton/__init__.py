"""GPU kernels, one file per structure. Nothing here imports triton until a kernel is asked for."""
