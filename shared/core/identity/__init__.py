"""Who owns a pool: its name and labels, pure functions of the claim, and the pool as GKE has it."""
