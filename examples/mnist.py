# %% [markdown]
# # 3 against 8 with ±1 weights
# A scikit-learn classifier whose weights are ±1. Uses MNIST where it is found, scikit-learn's small digits otherwise.

# %%
from sklearn.model_selection import train_test_split

import solspace as ss
from solspace.learn import BinaryPerceptronClassifier

try:
    images, labels = ss.data.load("mnist", classes=(3, 8), preprocess="raw", download=False)
    train = 314
except (FileNotFoundError, ValueError) as missing:
    print(f"MNIST was not found, so scikit-learn's digits are used: {missing}")
    images, labels = ss.data.load("digits", classes=(3, 8), preprocess="raw")
    train = 250
X, X_test, y, y_test = train_test_split(images, labels, train_size=train, random_state=0, stratify=labels)
print(X.shape, X_test.shape)

# %%
for sampler in ("tau", "temperature"):
    model = BinaryPerceptronClassifier(sampler=sampler, n_sweeps=400, random_state=0)
    model.fit(X, y)
    print(f"{sampler:11s}: training errors {model.n_violations_}, held-out accuracy {model.score(X_test, y_test):.3f}")

# %%
committee = BinaryPerceptronClassifier(n_sweeps=400, n_solutions=11, random_state=0).fit(X, y)
print(f"11 solutions vote: {committee.score(X_test, y_test):.3f}")

# %% [markdown]
# What do ±1 weights look like? One solution is black and white; the mean over the committee shows where all agree.

# %%
import matplotlib.pyplot as plt

side = round(committee.n_features_in_**0.5)
figure, axes = plt.subplots(1, 2, figsize=(7, 3.5), layout="constrained")
for ax, weights, title in zip(
    axes, (committee.weights_[0], committee.weights_.mean(axis=0)), ("one solution", "mean of 11")
):
    ax.imshow(weights.reshape(side, side), cmap="RdBu", vmin=-1, vmax=1)
    ax.set(title=title, xticks=[], yticks=[])
figure.savefig("mnist.png", dpi=150)
