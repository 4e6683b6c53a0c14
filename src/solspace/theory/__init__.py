"""n to infinity: replica theory of the reference system, of localization, and its thresholds."""
