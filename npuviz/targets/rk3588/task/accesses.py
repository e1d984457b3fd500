"""The memory that a task touches, as ranges."""

from npuviz.targets.rk3588.tables import Task
from npuviz.targets.rk3588.task.cost import Cost
from npuviz.targets.rk3588.task.work import PRECISION_BYTES


def access_rows(task: Task, cost: Cost) -> list[tuple[int, int, int]]:
    """(is write, low, high) address ranges that a task touches."""
    rows = [(0, task.stream, task.stream + 8 * len(task.words))]
    conv, output, pool = task.work.convolution, task.work.output, task.work.pooling
    if conv is not None and cost.factor > 0:
        span = max(0, conv.line_stride + conv.surface_stride) * 16
        surfaces = max(1, -(-conv.channels * PRECISION_BYTES[conv.precision] // 16))
        size = max(cost.feature_bytes, span * (surfaces - 1) + conv.width * conv.height * 16)
        rows.append((0, conv.feature_address, conv.feature_address + size))
        rows.append((0, conv.weight_address, conv.weight_address + conv.weight_bytes))
    if output is not None:
        if output.is_flying:
            rows.append((0, output.main_address, output.main_address + cost.feature_bytes))
        if not output.ew.is_bypassed and not output.ew.is_constant:
            rows.append((0, output.operand_address, output.operand_address + max(1, cost.operand_bytes)))
        if output.to_memory:
            surfaces = -(-output.channels * PRECISION_BYTES[output.precision_out] // 16)
            image = (output.width + output.row_gap) * (output.height - 1) + output.width
            size = (output.surface_stride * (surfaces - 1) + image) * 16
            rows.append((1, output.address, output.address + size))
    if pool is not None:
        if cost.is_pooling:
            rows.append((0, pool.source_address, pool.source_address + cost.feature_bytes))
        rows.append((1, pool.address, pool.address + cost.written_bytes))
    return rows
