"""The benchmark on posteriors with a reference: methods by name, one cell a run, a summary."""
