"""Entity resolution: which records are of one entity, kept up as records come, change and go."""
