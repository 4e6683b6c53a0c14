# %% [markdown]
# # Design a potential
#
# The uniform law on ±1 solutions cannot be sampled by diffusion, at any load. A potential changes the weights of the
# solutions, and with them whether sampling works. Theory shows why; then we find the best temperature of the log
# potential, and write a potential.

# %%
import matplotlib.pyplot as plt
import numpy as np

import solspace as ss

# %% [markdown]
# ## 1. Why the uniform law fails
#
# The diffusion follows a maximum of the free entropy φ_t(q). Under the uniform law there is another one at q = 1, at all
# times, which becomes the highest.

# %%
uniform = ss.predict(ss.Target("binary", "uniform"), alpha=0.5)
print(uniform.samplable)
print(uniform.edge())

# %%
log = ss.predict(ss.Target("binary", "log", temperature=0.5), alpha=0.5)
print(log.samplable)
print(log.edge())

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
uniform.plot("free entropy", ax=left, times=[0.0, 1.0, 2.0, 2.6])
left.set_title("U = 0: a maximum at q = 1 takes over")
log.plot("free entropy", ax=right, times=[0.0, 1.0, 2.0, 3.0])
right.set_title("U = −log s: one maximum")
plt.show()

# %% [markdown]
# ## 2. Which temperature reaches furthest?
#
# The weight of a constraint is s^(1/T). At small T solutions are far from the margin, where there are few; at T ≥ 1 there
# is a maximum at q = 1 again.

# %%
from solspace.theory.thresholds import asl_threshold  # one of `ss.thresholds`, which computes all of them

temperatures = [0.3, 0.5, 0.7, 0.9]
loads = [asl_threshold(ss.Target("binary", "log", T))[0] for T in temperatures]
best = ss.design("log")
print(best)

# %%
figure, ax = plt.subplots(figsize=(5, 3), layout="constrained")
ax.plot(temperatures, loads, "o-")
ax.plot(best.parameters["temperature"], best.alpha_asl, "k*", ms=12)
ax.set(xlabel="temperature T", ylabel="load α up to which ASL is fair")
plt.show()

# %% [markdown]
# ## 3. Your own potential
#
# A class with `log_weight(s)` (−U, with −∞ where a stability is forbidden) and `breakpoints`, where it is not smooth. This
# one keeps stabilities away from the margin as s², and is constant beyond s = 1.


# %%
class Plateau:
    """The weight of a constraint is s² up to s = 1, and 1 beyond."""

    breakpoints = (0.0, 1.0)

    def log_weight(self, s):
        with np.errstate(divide="ignore"):
            return 2 * np.log(np.clip(s, 0.0, 1.0))


target = ss.Target("binary", Plateau(), temperature=1.0)
prediction = ss.predict(target, alpha=0.3)
print(prediction.edge())
print("samplable at α = 0.3:", prediction.samplable, " overlap:", round(prediction.overlap, 4))

# %% [markdown]
# Enumeration of a small problem is the quickest way to find an error. (Theory is for n → ∞.)

# %%
law = ss.Perceptron.random(n=15, alpha=0.3, target=target, rng=0).enumerate()
overlaps, mass = law.overlap_distribution()
print(
    f"n = 15: {law.n_solutions} solutions, mean overlap {overlaps @ mass:.3f}; theory, n → ∞: {prediction.overlap:.3f}"
)

# %% [markdown]
# ## 4. Sample it, and compare with theory

# %%
problem = ss.Perceptron.random(n=201, alpha=0.3, target=target, rng=1)
samples = ss.localize(problem, n_samples=8, rng=2)
ss.diagnose(samples, prediction)

# %%
samples.plot("stabilities", prediction=prediction)
plt.show()

# %% [markdown]
# ## Further reading
#
# * [Choose a potential](../howto/choose-potential.md), [write one](../howto/write-potential.md) with a name and a closed form.
# * [Other constraints](../howto/other-constraints.md): bands and walls.
