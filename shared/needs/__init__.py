"""What a workload needs: shapes, places, ways to get capacity, and the body of a pool. Pure.

What reads or checks something raises a `Rejected` that names the field, the value and what would be
valid, where no pool can serve the pods or a setting does not allow it. `wanted` turns each into a
reason of its need, so that one part of a workload never hides another.
"""
