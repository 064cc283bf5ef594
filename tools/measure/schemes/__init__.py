"""Training steps of several ranks on one GPU, by every scheme of the catalogue (README.md)."""
