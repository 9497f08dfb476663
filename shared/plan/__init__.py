"""What a workload gets and what is taken away: one pure plan, without reads and without a clock."""
