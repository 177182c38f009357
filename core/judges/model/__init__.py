"""Language models as judges: what they are asked, the services that run them, what they cost."""
