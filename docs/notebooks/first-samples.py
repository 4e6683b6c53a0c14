# %% [markdown]
# # First samples
#
# A perceptron with ±1 weights has to answer 150 random questions right, and very many of its 2⁵⁰¹ weights do. Here we
# draw sixteen of these solutions so that each had its stated chance to come up, and check that this is so: first by
# theory, then against a solver that is not fair.

# %%
import matplotlib.pyplot as plt

import solspace as ss

# %% [markdown]
# ## 1. Say what you want to sample
#
# A *target* is a law over weights: here ±1 weights, every stability *s* above the margin 0, and weight *s*^(1/T) for each
# constraint, so that solutions well away from the margin are preferred. The load α is the number of constraints per
# weight.

# %%
target = ss.Target(prior="binary", potential="log", temperature=0.5, margin=0.0)
problem = ss.Perceptron.random(n=501, alpha=0.3, target=target, rng=0)
problem

# %% [markdown]
# ## 2. Ask theory whether that can work
#
# Before any run. `samplable` says whether the diffusion can be fair, `overlap` what two independent samples must have in
# common: there is nothing to fit.

# %%
prediction = ss.predict(target, alpha=0.3)
print(prediction.summary())
prediction

# %% [markdown]
# How far would it go? ASL, the diffusion, stops being fair at α = 0.651, long before solutions end (capacity).

# %%
ss.thresholds(target)

# %% [markdown]
# ## 3. Draw samples

# %%
samples = ss.localize(problem, n_samples=16, rng=1)
samples

# %% [markdown]
# `samples.weights` is an array (16, 501) of ±1, `samples.stabilities` (16, 150), and every sample solves the problem:

# %%
print(samples.weights[:2, :12])
print(samples.solved.all(), samples.stabilities.min())

# %% [markdown]
# ## 4. Are they fair?
#
# Two things are looked at: how stabilities are distributed, and how similar two samples are. The first alone is weak.
# *Fair* never comes without a number: the smallest bias that so few samples would have shown.

# %%
report = ss.diagnose(samples, prediction)
report

# %% [markdown]
# In pictures: stabilities, overlaps and the course of the run, each with theory in red.

# %%
samples.plot("all", prediction=prediction)
plt.show()

# %% [markdown]
# And what the verdict is made of, each in the unit of its own chance: beyond 3 it would be called a bias.

# %%
report.plot()
plt.show()

# %% [markdown]
# ## 5. A solver is no sampler
#
# `ss.solve` finds solutions too, and at far higher loads. But which ones? Ask the same question:

# %%
found = ss.solve(problem, n_solutions=8, rng=1)
ss.diagnose(found, prediction)

# %%
found.plot("all", prediction=prediction)
plt.show()

# %% [markdown]
# All eight are solutions, and they are nearly the same one: whatever you average over them is a property of the solver.
#
# ## Where to go on
#
# * [Your own data](your-own-data.ipynb), where no theory judges.
# * [Design a potential](design-a-potential.ipynb): which laws can be sampled at all.
# * [The idea](../idea.md) explains what the diffusion does.
