"""Start of `python -m cli`; the commands are in `app`."""

from cli.app import app

if __name__ == "__main__":
    app(prog_name="tpu-provisioner")
