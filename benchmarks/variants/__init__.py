"""What the project is compared with: the floors under it.

The function sources are laid beside the staged ``main.py`` and started by the framework like it;
they carry as little of their own as the comparison allows.
"""
