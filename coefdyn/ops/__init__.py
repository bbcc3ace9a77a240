"""Operations of flash-linear-attention and mamba-ssm under their own names, for any device.

Code that was written for those packages runs where they do not, on a CPU or a Mac, after one line:

    from coefdyn.ops import chunk_gated_delta_rule

Arguments, layouts, defaults and results are those of fla-core 0.6.0 and mamba-ssm 2.3.2. Each
operation makes a ``CoefficientDynamics`` of its arguments and applies it. ``ARGUMENTS`` says of
every argument whether it is served; a value that is not raises a ``ValueError`` with its name.
"""

from typing import TYPE_CHECKING

from coefdyn.first_use import load_on_first_use

if TYPE_CHECKING:
    from coefdyn.ops.arguments import ARGUMENTS
    from coefdyn.ops.delta import (
        chunk_delta_rule,
        chunk_gated_delta_rule,
        chunk_kda,
        fused_recurrent_gated_delta_rule,
    )
    from coefdyn.ops.gated import (
        chunk_gla,
        chunk_linear_attn,
        chunk_retention,
        chunk_simple_gla,
    )
    from coefdyn.ops.mamba import mamba_chunk_scan_combined, selective_scan_fn

load_on_first_use(__name__)
