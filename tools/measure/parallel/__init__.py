"""Jobs of several ranks inside one GPU: steps before and after changes, and products beside collectives (README.md)."""
