"""One cloud from noisy to clean: stages, their plan, and what comes back."""
