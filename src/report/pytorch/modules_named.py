def modules_named(model, *patterns):
    """Modules by their names in the trace, with * and ?; a name like Linear_3 is the fourth Linear of the model. A module
    stands for all inside it."""
    modules = dict(model.named_modules())
    found = []
    for pattern in patterns:
        names = [name for name in modules if name and fnmatch.fnmatchcase(name, pattern)]
        kind, _, place = pattern.rpartition("_")
        if not names and place.isdigit():
            names = [name for name, module in modules.items() if type(module).__name__ == kind][int(place) :][:1]
        if not names:
            near = difflib.get_close_matches(pattern, modules, n=3)
            raise LookupError(f"the model has no module {pattern!r}" + (f"; near: {', '.join(near)}" if near else ""))
        found += names
    outermost = [name for name in dict.fromkeys(found) if not any(name.startswith(other + ".") for other in found)]
    return [modules[name] for name in outermost]
