"""Number the faults, after which a chip cannot continue; explain/ has their sentences."""

import numpy as np

FAULT_ADDRESS = np.int64(1)  # memory access outside
FAULT_ASSERT = np.int64(2)
FAULT_STACK = np.int64(3)
FAULT_REGISTERS = np.int64(4)
FAULT_OPCODE = np.int64(5)
FAULT_UNROUTED = np.int64(7)  # a word arrives where its color is not configured
FAULT_QUEUE = np.int64(8)  # an operand names a queue that has no color
FAULT_FIFO = np.int64(10)  # the FIFO action "fault"
FAULT_FUNCTION = np.int64(11)
FAULT_COLOR = np.int64(12)
FAULT_DSR = np.int64(13)
FAULT_SHAPE = np.int64(14)
FAULT_OPERAND = np.int64(16)
FAULT_EMPTY = np.int64(17)  # an operation takes two words of a queue that has one
FAULT_ROOM = np.int64(18)  # a step sends two words where there is room for one
FAULT_SOURCE = np.int64(19)  # dfilt without a source in the fabric
FAULT_ARGUMENTS = np.int64(20)  # a call by value gives more arguments than the function takes
FAULT_REGISTER = np.int64(21)  # a configuration register that is not simulated
FAULT_FILTER = np.int64(22)  # a filter that no color has
FAULT_MASK = np.int64(23)  # a mask of control_transform
