"""The operator's hand: look at a deployment, plan, replay, find what is wrong. Only `replay` changes anything."""
