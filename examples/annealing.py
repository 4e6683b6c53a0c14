# %% [markdown]
# # τ-annealing against temperature annealing
# The same chain, the same number of sweeps; what is lowered makes the difference.

# %%
import matplotlib.pyplot as plt
import numpy as np

import solspace as ss

alphas = [0.1, 0.2, 0.3, 0.4, 0.5]
solved = {"tau": [], "temperature": []}
for alpha in alphas:
    for schedule, rates in solved.items():
        done = []
        for instance in range(8):
            problem = ss.Perceptron.random(n=501, alpha=alpha, rng=instance)
            samples = ss.anneal(problem, n_chains=2, n_sweeps=100, schedule=schedule, rng=instance)
            done.append(samples.solved.mean())
        rates.append(np.mean(done))
        print(f"alpha = {alpha}, {schedule:11s}: solved {rates[-1]:.2f}")

# %%
figure, ax = plt.subplots(layout="constrained")
for schedule, rates in solved.items():
    ax.plot(alphas, rates, "o-", label=schedule)
ax.set(xlabel=r"load $\alpha$", ylabel="fraction solved", title="N = 501, 100 sweeps, 8 instances × 2 chains")
ax.legend()
figure.savefig("annealing.png", dpi=150)
