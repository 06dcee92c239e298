"""The policy of several actors: a network for each group of them."""
