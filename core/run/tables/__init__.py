"""Tables of reports: what was kept, what was right, who agrees, what failed, what it cost."""
