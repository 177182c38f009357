"""Parts of pages: what is shown of an audited system."""
