"""Make the steps of RNN, GRU and LSTM: gates in memory, the table that serves them, tasks of one step."""
