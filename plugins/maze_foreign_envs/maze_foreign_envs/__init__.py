"""Environments of gym, of dm_env, of bsuite and of grid2op as environments of gymnasium."""
