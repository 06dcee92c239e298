"""Acting and stepping: agents choose actions, a stepper plays them and hands each transition to a sink."""
