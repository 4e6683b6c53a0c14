"""scikit-learn estimators: low-bit weights with probabilities, one integer network to deploy, and the ±1 perceptron."""

from solspace.learn.integer import IntegerClassifier
from solspace.learn.lowbit import LevelSamples, LowBitClassifier
from solspace.learn.perceptron import BinaryPerceptronClassifier

__all__ = ["BinaryPerceptronClassifier", "IntegerClassifier", "LevelSamples", "LowBitClassifier"]
