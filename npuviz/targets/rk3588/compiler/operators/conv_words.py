"""Words of convolution tasks with what the DPU does behind them."""

from npuviz.formats.rk3588.conv_task import ConvTask
from npuviz.formats.rk3588.conv_words import conv_task_words
from npuviz.formats.rk3588.registers import Word, registers
from npuviz.formats.rk3588.tensor_layout import DEPTHWISE_GROUP, aligned, packing
from npuviz.targets.rk3588.compiler.dpu import Stages, with_zeros
from npuviz.targets.rk3588.task.work import FP16, INT8


def conv_words(task: ConvTask, stages: Stages) -> list[Word]:
    """The words of a convolution task with its stages; readers' words come last."""
    stream = conv_task_words(task)
    words = list(stream.words)
    places = {(word.target, word.offset): index for index, word in enumerate(words)}
    extra: list[Word] = []
    changed = stages.words(to_half=task.out_dtype == "float16")
    if task.depthwise:
        # The weights of the last group are filled up, the features are not.
        size = task.kernel_bytes // task.channels * out_channels(task)
        changed.append(registers().encode("CNA", "WEIGHT_SIZE0", weight_bytes=size))
        changed.append(registers().encode("CNA", "WEIGHT_SIZE1", kernel_bytes=size))
    if stages.reads_memory:
        changed += stages.reader_words()
        sizes = {
            "DATA_CUBE_WIDTH": {"width": task.out_width - 1},
            "DATA_CUBE_HEIGHT": {"height": task.out_height - 1},
            "DATA_CUBE_CHANNEL": {"channels": out_channels(task) - 1},
        }
        changed += [registers().encode("DPU_RDMA", name, **fields) for name, fields in sizes.items()]
        precision = FP16 if task.out_dtype == "float16" else INT8
        mode = {"in_precision": precision, "proc_precision": precision, "burst": 15, "main_disable": 1}
        changed.append(registers().encode("DPU_RDMA", "FEATURE_MODE_CFG", mode=3 * task.depthwise, **mode))
    for word in changed:
        place = places.get((word.target, word.offset))
        if place is None:
            extra.append(word)
        else:
            words[place] = word
    return with_zeros(words + extra, "DPU_RDMA") if stages.reads_memory else words + extra


def out_channels(task: ConvTask) -> int:
    """Channels of the DPU's cube, as conv_task_words fills them up."""
    if task.depthwise:
        return aligned(task.channels, DEPTHWISE_GROUP)
    return aligned(task.kernels, packing(task.in_dtype).kernels)
