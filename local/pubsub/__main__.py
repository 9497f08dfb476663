"""Start of `python -m local.pubsub`; the commands are in `command`."""

from local.pubsub.command import app

if __name__ == "__main__":
    app(prog_name="python -m local.pubsub")
