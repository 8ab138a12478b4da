"""The networks: anything that maps (B, C, [Z,] Y, X) to the same shape."""
