# %% [markdown]
# # First samples
# Sixteen fair samples of a perceptron with ±1 weights, and how we know that they are fair.

# %%
import solspace as ss

target = ss.Target(prior="binary", potential="log", temperature=0.5)
problem = ss.Perceptron.random(n=1001, alpha=0.3, target=target, rng=0)
print(problem)

# %% [markdown]
# Theory first: is it possible, and what must samples look like?

# %%
prediction = ss.predict(target, alpha=0.3)
print(f"samplable: {prediction.samplable}, overlap of two samples: {prediction.overlap:.3f}")

# %%
samples = ss.localize(problem, n_samples=16, rng=1)
report = ss.diagnose(samples, prediction)
print(report)

# %% [markdown]
# The histogram of stabilities against theory. It is a weak test; overlaps, printed above, are the strong one.

# %%
ax = samples.plot("stabilities", prediction=prediction)
ax.figure.savefig("first_samples.png")
