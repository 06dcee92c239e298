"""Value decomposition for teams of agents in Maze: VDN and QMIX."""
