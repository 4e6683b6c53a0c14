# %% [markdown]
# # Your own data: fair or not?
#
# On random patterns theory predicts what fair samples look like, on real data it does not. Two different samplers can
# then be compared: long Markov chains, which show whether they have lost the memory of their start, and localization with
# expectation propagation.
#
# The data are scikit-learn's 8 × 8 pictures of handwritten digits, the classes odd and even.

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
# `from_data` draws an instance at a given load from your rows: it centres the pixels, computes 201 random features,
# rescales every row to norm √n, and folds the labels in. Without `preprocess` the numbers are unchanged: pixels up to 16
# would give stabilities of order 100, and the temperature of the target would have no meaning.

# %%
problem = ss.Perceptron.from_data(X, y, alpha=0.3, features=201, preprocess="centred", rng=0)
print(problem)
print("rows of norm √n:", np.allclose((problem.patterns**2).sum(axis=1), problem.n, rtol=1e-4))
print("could they be random?", problem.looks_random())

# %% [markdown]
# ## 2. Long chains
#
# τ-annealing works on any patterns. After its 200 sweeps follow 400 at the target, in which the overlap of a chain with
# its own past has to fall to the overlap of two chains.

# %%
chains = ss.anneal(problem, n_chains=32, n_sweeps=200, n_extra=400, thin=5, rng=2)
ss.diagnose(chains)

# %% [markdown]
# ## 3. Localization, with the chains as reference
#
# The patterns do not look random, so `localize` uses expectation propagation instead of message passing.

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
# ## 4. A case that is not fair
#
# At twice the load most chains still find solutions, but they are not fair samples: each stays in its own region. The
# verdict says so, with advice.

# %%
hard = ss.Perceptron.from_data(X, y, alpha=0.6, features=201, preprocess="centred", rng=0)
stuck = ss.anneal(hard, n_chains=16, n_sweeps=200, n_extra=400, thin=5, rng=2)
ss.diagnose(stuck)

# %% [markdown]
# Their energies, sweep by sweep, hardly change after the schedule.

# %%
stuck.plot("energy")
plt.show()

# %% [markdown]
# ## 5. How many solutions are there?
#
# Under the uniform law the partition function is the number of solutions; expectation propagation gives its logarithm to
# about 0.1.

# %%
uniform = ss.Target(prior="binary", potential="uniform")
for one in (problem, hard):
    counted = ss.ep(one.with_target(uniform))
    print(f"α = {one.alpha:.2f}: e^{counted.log_partition:.1f} of e^{one.n * np.log(2):.1f} weights")

# %% [markdown]
# ## Further reading
#
# * [Use your own data](../howto/own-data.md): tables and files, the command line, and results on images.
# * [Read the verdict](../howto/verdict.md), sentence by sentence.
