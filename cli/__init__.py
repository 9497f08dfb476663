"""The operator's commands: look, plan, replay, check. Only `replay` changes anything."""
