"""Times single operations on a GPU: families of shapes, drawn at random, forward and backward."""
