"""Programs that play Google Cloud and Kubernetes on one machine.

They import nothing of the product but `terminal`, which tells wrong arguments.
"""
