"""`python -m local.fakegke`: the command line of the fake GKE. All of it is in `commands`."""

from local.fakegke.commands import app

if __name__ == "__main__":
    app(prog_name="python -m local.fakegke")
