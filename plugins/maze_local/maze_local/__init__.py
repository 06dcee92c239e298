"""The runner `local`: environments and workers in processes of this machine."""
