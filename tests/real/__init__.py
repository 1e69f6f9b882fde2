"""Against real engines on this machine's CPU; ``make test-real``."""
