"""Whether answers change with the order of the context, or with filler in it."""
