"""Memories of policies: GRU, LSTM, a window of past rows, a linear recurrence."""
