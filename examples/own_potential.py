# %% [markdown]
# # Your own potential
# A class with `log_weight` and `breakpoints` is all it takes: theory and samplers follow.

# %%
import numpy as np

import solspace as ss


class Plateau:
    """The weight is s² up to s = 1 and constant beyond: solutions are pushed off the margin, but not further."""

    breakpoints = (0.0, 1.0)

    def log_weight(self, s):
        with np.errstate(divide="ignore"):
            return 2 * np.log(np.clip(s, 0.0, 1.0))


target = ss.Target(prior="binary", potential=Plateau(), temperature=1.0)

# %% [markdown]
# What theory says:

# %%
prediction = ss.predict(target, alpha=0.3)
print(f"samplable {prediction.samplable}, overlap {prediction.overlap:.4f}, entropy {prediction.entropy:.4f}")

# %% [markdown]
# A small problem, exactly:

# %%
law = ss.Perceptron.random(n=15, alpha=0.3, target=target, rng=0).enumerate()
overlaps, mass = law.overlap_distribution()
print(f"n = 15: entropy {law.entropy:.4f}, overlap {overlaps @ mass:.4f}")

# %% [markdown]
# A large one, by ASL:

# %%
problem = ss.Perceptron.random(n=201, alpha=0.3, target=target, rng=1)
samples = ss.localize(problem, n_samples=4, rng=2)
print(ss.diagnose(samples, prediction))

# %%
ax = samples.plot("stabilities", prediction=prediction)
ax.figure.savefig("own_potential.png")
