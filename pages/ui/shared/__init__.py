"""What figures and tables of every page share: palette, forests, numbers, marked text."""
