"""Number the kinds of log rows (a printed line, a hazard), with the meaning of their values."""

import numpy as np

LOG_PRINT = np.int64(1)  # value: character codes of a line follow one by one
LOG_TRACE = np.int64(2)
LOG_CONTROL_UNBOUND = np.int64(3)
LOG_THREAD_BUSY = np.int64(4)
LOG_LENGTHS = np.int64(5)
LOG_ABSORBED = np.int64(6)
LOG_NO_INDEX = np.int64(7)
LOG_TWO_ARRIVALS = np.int64(8)
LOG_QUEUE_BUSY = np.int64(9)
LOG_NO_ADVANCE = np.int64(11)
LOG_UNBOUND_TASK = np.int64(12)
LOG_OUTPUT_BUSY = np.int64(14)
LOG_REBOUND = np.int64(15)
LOG_MIXED = np.int64(16)
LOG_BOUNDS = np.int64(17)
LOG_LEFT = np.int64(18)  # a word leaves the rectangle; value: color | port << 8
# value of the three: begin of the operand under way | (1 + its listing index) << RACE_SHIFT
LOG_EARLY_READ = np.int64(19)
LOG_EARLY_WRITE = np.int64(20)
LOG_TWO_WRITES = np.int64(21)
LOG_WRAPPED = np.int64(22)  # value: the OP_ number | the type << 8
LOG_UNWRITTEN = np.int64(23)  # value: the address of the first byte that was never written

RACE_SHIFT = 20
LAST_SHIFT = 20  # value of LOG_BOUNDS: base | (last + LAST_BIAS) << LAST_SHIFT
LAST_BIAS = 1 << 24
