"""A JAX training script that knows nothing of any recorder."""

import jax
import jax.numpy as jnp

WIDTH, LAYERS, BATCH = 2048, 6, 4096


def network(parameters, x):
    for i, (w, b) in enumerate(parameters):
        with jax.named_scope(f"layer{i}"):
            x = jnp.dot(x, w) + b
            x = jax.nn.gelu(x) if i + 1 < len(parameters) else x
    return x


@jax.jit
def train_step(parameters, momenta, x, y):
    loss, gradients = jax.value_and_grad(lambda p: jnp.mean((network(p, x) - y) ** 2))(parameters)
    momenta = jax.tree.map(lambda m, g: 0.9 * m + g, momenta, gradients)
    return jax.tree.map(lambda p, m: p - 1e-3 * m, parameters, momenta), momenta, loss


keys = jax.random.split(jax.random.key(0), LAYERS + 2)
parameters = [(jax.random.normal(k, (WIDTH, WIDTH)) / WIDTH**0.5, jnp.zeros(WIDTH)) for k in keys[:LAYERS]]
momenta = jax.tree.map(jnp.zeros_like, parameters)
x, y = (jax.random.normal(k, (BATCH, WIDTH)) for k in keys[LAYERS:])
for step in range(60):
    parameters, momenta, loss = train_step(parameters, momenta, x, y)
    if step % 20 == 0:
        print(step, f"{float(loss):.3f}", flush=True)
