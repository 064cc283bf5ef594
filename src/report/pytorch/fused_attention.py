def fused_attention(model):
    """Models of transformers have a switch; in others, write F.scaled_dot_product_attention(q, k, v) by hand."""
    if hasattr(model, "set_attn_implementation"):
        model.set_attn_implementation("sdpa")
    else:
        warnings.warn("flash-attention: call F.scaled_dot_product_attention where this model multiplies q and k", stacklevel=2)
