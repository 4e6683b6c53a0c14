"""What is not numbers: files, locks, names, progress, threads, compilation. Knows nothing of perceptrons."""
