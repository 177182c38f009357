"""What every cohort format shares: files and tables, who and what counts, records, references."""
