def repeated_blocks(model):
    """The blocks a model is stacked of: entries of lists of modules of one kind that have modules of their own."""
    found = []
    for module in model.children():
        entries = list(module.children())
        alike = len(entries) > 1 and len({type(entry) for entry in entries}) == 1 and any(entries[0].children())
        if alike and isinstance(module, (torch.nn.ModuleList, torch.nn.Sequential)):
            found += entries
        else:
            found += repeated_blocks(module)
    return found
