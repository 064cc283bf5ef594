"""Changes to a network that were made for real, to be measured against the network as it was: one module each."""
