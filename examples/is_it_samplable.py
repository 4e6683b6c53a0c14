# %% [markdown]
# # Is it samplable?
# Why fair uniform sampling of ±1 weights is impossible, and how a potential cures it.

# %%
import matplotlib.pyplot as plt

import solspace as ss

uniform = ss.Target(prior="binary", potential="uniform")
log = ss.Target(prior="binary", potential="log", temperature=0.5)

# %% [markdown]
# Under the uniform measure a maximum at q = 1 wins at late times, at every load.

# %%
for alpha in (0.1, 0.3, 0.5):
    prediction = ss.predict(uniform, alpha)
    print(f"uniform, alpha = {alpha}: samplable {prediction.samplable}")
print(ss.predict(uniform, 0.5).edge())

# %% [markdown]
# The log potential keeps solutions away from the margin: the maximum at q = 1 is gone up to alpha = 0.651.

# %%
for alpha in (0.3, 0.5, 0.64, 0.66):
    prediction = ss.predict(log, alpha)
    print(f"log, alpha = {alpha}: samplable {prediction.samplable}, overlap {prediction.overlap:.3f}")

# %%
figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
ss.predict(uniform, 0.5).plot("free entropy", ax=axes[0], times=[0, 1, 2, 3])
axes[0].set_title("uniform: the right edge wins")
ss.predict(log, 0.5).plot("free entropy", ax=axes[1], times=[0, 1, 2, 3])
axes[1].set_title("log potential: one maximum")
figure.savefig("is_it_samplable.png", dpi=150)
