@contextlib.contextmanager
def reduces_if(model, last):
    """Gradients of several passes are added up and reduced once, behind the last."""
    if hasattr(model, "planned_buckets"):
        model.planned_buckets.active = last
    if hasattr(model, "set_requires_gradient_sync"):
        model.set_requires_gradient_sync(last)
    with model.no_sync() if hasattr(model, "no_sync") and not last else contextlib.nullcontext():
        yield
