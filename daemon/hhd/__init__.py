"""hhd moves a running agent session between one person's devices the way a suspended process is resumed."""
