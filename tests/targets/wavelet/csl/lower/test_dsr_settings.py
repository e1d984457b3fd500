"""What runs after an operation whose fabric descriptor lies in a DSR: the task that the load named."""

from pathlib import Path

import pytest

from tests.targets.wavelet.csl.executed import numbers

TEXT = """
const c = @get_color(5);
const oq = @get_output_queue(2);
const iq = @get_input_queue(2);
var words = @constants([4]u32, 7);
const from = @get_dsd(mem1d_dsd, .{{ .tensor_access = |i|{{4}} -> words[i] }});
const to = @get_dsd(fabout_dsd, .{{ .extent = 4, .fabric_color = c, .output_queue = oq }});
const dsr = @get_dsr(dsr_dest, 5);
task loaded() void {{ out[0] += 1; }}
task repeated() void {{ out[1] += 1; }}
fn main() void {{
  @mov32(dsr, from, .{{ .async = true{operation} }});
  while (out[2] < 100) {{ out[2] += 1; }}
}}
comptime {{
  @bind_local_task(loaded, @get_local_task_id(11));
  @bind_local_task(repeated, @get_local_task_id(12));
  @set_local_color_config(c, .{{ .routes = .{{ .rx = .{{RAMP}}, .tx = .{{RAMP}} }} }});
  @initialize_queue(oq, .{{ .color = c }});
  @initialize_queue(iq, .{{ .color = c }});
  @load_to_dsr(dsr, to, .{{ .async = true{load} }});
}}
"""


@pytest.mark.parametrize(
    ("load", "operation", "ran"),
    [
        (", .activate = loaded", "", [1, 0]),
        (", .activate = loaded", ", .activate = loaded", [1, 0]),
        (", .activate = loaded", ", .activate = repeated", [1, 0]),
        ("", ", .activate = repeated", [0, 0]),
    ],
)
def test_the_load_names_the_task(tmp_path: Path, load: str, operation: str, ran: list[int]) -> None:
    assert numbers(tmp_path, TEXT.format(load=load, operation=operation), 2) == ran
