"""Jobs of several ranks inside one GPU: steps before and after changes, and products during collectives (README.md)."""
