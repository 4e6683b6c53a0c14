# %% [markdown]
# # Your own data: fair or not?
#
# On random patterns theory knows what fair samples look like. On yours it does not. Two samplers that work in entirely
# different ways then judge each other: long Markov chains, which tell by themselves whether they have forgotten where they
# started, and localization with expectation propagation.
#
# The data: scikit-learn's 8 × 8 pictures of handwritten digits; the question: is it odd?

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import solspace as ss

X, digits = load_digits(return_X_y=True)
y = np.where(digits % 2, "odd", "even")
print(X.shape, X.max(), np.unique(y))

# %% [markdown]
# ## 1. From a table to a problem
#
# `from_data` draws an instance at a given load from your rows: it centres the pixels, passes them through 201 random
# features, gives every row the norm √n, and folds the labels in. Without `preprocess` your numbers stay as they are:
# pixels up to 16 would make stabilities of order 100, and the temperature of the target would mean nothing.

# %%
problem = ss.Perceptron.from_data(X, y, alpha=0.3, features=201, preprocess="centred", rng=0)
print(problem)
print("rows of norm √n:", np.allclose((problem.patterns**2).sum(axis=1), problem.n, rtol=1e-4))
print("could they be random?", problem.looks_random())

# %% [markdown]
# ## 2. Chains that judge themselves
#
# τ-annealing works on anything. After its 200 sweeps, 400 more at the target itself: in these a chain must forget where it
# was. Its overlap with its earlier self has to come down to the overlap of two chains.

# %%
chains = ss.anneal(problem, n_chains=32, n_sweeps=200, n_extra=400, thin=5, rng=2)
ss.diagnose(chains)

# %% [markdown]
# ## 3. Localization, judged by the chains
#
# `localize` notices that the patterns are not random and takes expectation propagation in place of message passing.

# %%
samples = ss.localize(problem, n_samples=16, rng=1)
print(samples.info.denoiser, "because", samples.info.reason)
ss.diagnose(samples, reference=chains)

# %% [markdown]
# The overlaps of all pairs of samples, with those of the chains as an outline:

# %%
samples.plot("overlaps", reference=chains)
plt.show()

# %% [markdown]
# ## 4. And when it is not fair
#
# Double the load. Most chains still find solutions, and yet they are no samples: each sits in a region of its own, and
# never leaves it. The verdict says so, and what to try.

# %%
hard = ss.Perceptron.from_data(X, y, alpha=0.6, features=201, preprocess="centred", rng=0)
stuck = ss.anneal(hard, n_chains=16, n_sweeps=200, n_extra=400, thin=5, rng=2)
ss.diagnose(stuck)

# %% [markdown]
# Their energies, sweep by sweep: after the schedule hardly anything moves.

# %%
stuck.plot("energy")
plt.show()

# %% [markdown]
# ## 5. How many solutions are there?
#
# Under the uniform law the partition function counts them, and expectation propagation gives its logarithm for your own
# patterns, right to about 0.1.

# %%
uniform = ss.Target(prior="binary", potential="uniform")
for one in (problem, hard):
    counted = ss.ep(one.with_target(uniform))
    print(f"α = {one.alpha:.2f}: e^{counted.log_partition:.1f} of e^{one.n * np.log(2):.1f} weights")

# %% [markdown]
# ## Where to go on
#
# * [Use your own data](../howto/own-data.md): tables and files, the command line, and what was measured on images.
# * [Read the verdict](../howto/verdict.md), sentence by sentence.
