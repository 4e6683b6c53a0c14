# %% [markdown]
# # A 3-bit classifier on a microcontroller
#
# A sensor delivers a few dozen numbers, and a device without a floating-point unit has to decide. We sample the posterior of
# weights from −3 to 3, look at what it knows, distil one network of integers, and compile it.

# %%
import shutil
import subprocess
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from solspace.learn import LowBitClassifier

# %% [markdown]
# ## 1. The data
#
# Images of ten handwritten digits, 8 × 8 pixels with 17 grey levels: what a cheap optical sensor might see.

# %%
X, y = load_digits(return_X_y=True)
X, X_test, y, y_test = train_test_split(X, y, train_size=0.6, random_state=0, stratify=y)
X.shape

# %% [markdown]
# ## 2. The posterior
#
# Four chains draw weights, scales and intercepts of all classes given the training set. Probabilities are averages over them.

# %%
model = LowBitClassifier("3bit", random_state=0).fit(X, y)
regression = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=2000)).fit(X, y)
print(f"accuracy: {model.score(X_test, y_test):.3f}, logistic regression {regression.score(X_test, y_test):.3f}")

# %% [markdown]
# How sure is it, and is it right then? The share of right answers against the probability of the class that was chosen:

# %%
fig, ax = plt.subplots(figsize=(4.5, 4))
for name, one in (("3 bits", model), ("logistic regression", regression)):
    p = one.predict_proba(X_test)
    sure, right = p.max(axis=1), one.classes_[p.argmax(axis=1)] == y_test
    parts = np.array_split(np.argsort(sure), 8)
    ax.plot([sure[part].mean() for part in parts], [right[part].mean() for part in parts], "o-", label=name)
ax.plot([0.4, 1], [0.4, 1], "k--", lw=0.8)
ax.set(xlabel="probability", ylabel="share of right answers")
ax.legend()
plt.show()

# %% [markdown]
# Which pixels matter? The posterior probability that a weight is not zero, for the digits 3 and 8:

# %%
fig, axes = plt.subplots(1, 2, figsize=(6, 2.8))
for ax, digit in zip(axes, (3, 8)):
    ax.imshow(model.feature_inclusion_[digit].reshape(8, 8), vmin=0, vmax=1, cmap="Blues")
    ax.set(title=f"digit {digit}", xticks=[], yticks=[])
plt.show()

# %% [markdown]
# ## 3. One network of integers
#
# The network whose probabilities come closest to those of the posterior: one vector of weights for each digit, a threshold
# each, one scale for all.

# %%
for levels in ("ternary", "3bit"):
    network = model.to_single(levels)
    print(f"{levels}: accuracy {network.score(X_test, y_test):.3f}, {network.size_bytes} bytes of tables")
network.weights_[3].reshape(8, 8)

# %% [markdown]
# ## 4. In C
#
# A header with tables of integers and two short functions. `digits_quantise` rounds raw pixels to int8, the only place with
# floating-point numbers; `digits_predict` adds and multiplies integers.

# %%
folder = Path(tempfile.mkdtemp())
network.to_c(folder / "digits.h", name="digits")
text = (folder / "digits.h").read_text()
print(text[text.index("/* Rounds") :])

# %% [markdown]
# Where there is a C compiler, it gives the classes that Python gives, to the last row:

# %%
program = """
#include "digits.h"
#include <stdio.h>
int main(void) {
  float x[64]; int8_t q[64];
  for (;;) {
    for (int j = 0; j < 64; j++) if (scanf("%f", x + j) != 1) return 0;
    digits_quantise(x, q);
    printf("%d\\n", digits_predict(q));
  }
}
"""
(folder / "main.c").write_text(program)
if shutil.which("cc"):
    subprocess.run(["cc", "-O2", "-o", folder / "main", folder / "main.c"], check=True)
    rows = "\n".join(" ".join(f"{value:g}" for value in row) for row in X_test)
    done = subprocess.run([folder / "main"], input=rows, capture_output=True, text=True, check=True)
    found = network.classes_[[int(word) for word in done.stdout.split()]]
    print((found == network.predict(X_test)).mean(), (found == y_test).mean())

# %% [markdown]
# ## Further reading
#
# * [Classify with a few bits](../howto/classifier.md): parameters, scores on many tables, and where it loses.
# * `solspace fit table.csv --label y` does all of this from the shell.
