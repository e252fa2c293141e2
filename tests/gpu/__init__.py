"""What has to be tried where there is a GPU: `make gpu`, or `python -m tests.gpu`."""
