"""Measures real training steps on one GPU, a process per row: the truth that predictions are judged by (README.md)."""
