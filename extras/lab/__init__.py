"""The generator of synthetic patients, runs of kind ``inhibition``, and methods under research."""
