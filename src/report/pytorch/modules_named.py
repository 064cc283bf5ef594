def modules_named(model, *patterns):
    """Modules by their names in the trace, with * and ?; a name like Linear_3 is the fourth Linear of the model."""
    found = []
    for pattern in patterns:
        named = [module for name, module in model.named_modules() if fnmatch.fnmatchcase(name, pattern)]
        kind, _, place = pattern.rpartition("_")
        if not named and place.isdigit():
            named = [module for module in model.modules() if type(module).__name__ == kind][int(place) :][:1]
        if not named:
            near = difflib.get_close_matches(pattern, [name for name, _ in model.named_modules()], n=3)
            raise LookupError(f"the model has no module {pattern!r}" + (f"; near: {', '.join(near)}" if near else ""))
        found += [module for module in named if not any(module is other for other in found)]
    return found
