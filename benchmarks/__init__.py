"""Programs that time solspace beside other tools: `python -m benchmarks`."""
