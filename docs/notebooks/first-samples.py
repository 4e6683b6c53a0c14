# %% [markdown]
# # First samples
#
# A perceptron with 501 weights ±1 has to classify 150 random patterns correctly; very many of its 2⁵⁰¹ weights do. We draw
# sixteen of these solutions fairly, each with its stated probability, check this with theory, and compare with a solver
# that is not fair.

# %%
import matplotlib.pyplot as plt

import solspace as ss

# %% [markdown]
# ## 1. State what to sample
#
# A *target* is a law over weights: here ±1 weights, all stabilities *s* above the margin 0, and weight *s*^(1/T) for each
# constraint, which prefers solutions away from the margin. The load α is the number of constraints per weight.

# %%
target = ss.Target(prior="binary", potential="log", temperature=0.5, margin=0.0)
problem = ss.Perceptron.random(n=501, alpha=0.3, target=target, rng=0)
problem

# %% [markdown]
# ## 2. Predict whether that works
#
# `samplable` states whether the diffusion can be fair, `overlap` is that of two independent samples, without fit
# parameters.

# %%
prediction = ss.predict(target, alpha=0.3)
print(prediction.summary())
prediction

# %% [markdown]
# The diffusion, ASL, is fair up to α = 0.651, well below the load at which solutions end (capacity).

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
# The report compares the distribution of stabilities, and the overlaps of pairs of samples, the stronger test. *Fair*
# always has a number: the smallest bias that these samples would have shown.

# %%
report = ss.diagnose(samples, prediction)
report

# %% [markdown]
# Stabilities, overlaps and the path of the run, each with theory in red:

# %%
samples.plot("all", prediction=prediction)
plt.show()

# %% [markdown]
# The deviations behind the verdict; beyond 3 the verdict would be a bias.

# %%
report.plot()
plt.show()

# %% [markdown]
# ## 5. A solver is not a sampler
#
# `ss.solve` finds solutions too, and at far higher loads. Are they fair?

# %%
found = ss.solve(problem, n_solutions=8, rng=1)
ss.diagnose(found, prediction)

# %%
found.plot("all", prediction=prediction)
plt.show()

# %% [markdown]
# All eight are solutions, but they are nearly equal: averages over them are properties of the solver.
#
# ## Further reading
#
# * [Your own data](your-own-data.ipynb), without theory.
# * [Design a potential](design-a-potential.ipynb): which laws can be sampled.
# * [The idea](../idea.md) explains what the diffusion does.
