"""What every command of ours says at a terminal, the operator's, the demo's and the stand-ins'."""
