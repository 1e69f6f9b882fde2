"""The commands, one module each: ``configure`` its arguments, ``run`` it."""
