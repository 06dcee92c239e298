"""The libraries and the ids of their environments, which are known without importing any of them."""

from __future__ import annotations

import importlib.util
from contextlib import suppress

_MODULES = {
    "gymnax": "gymnax",
    "brax": "brax",
    "playground": "mujoco_playground",
    "jumanji": "jumanji",
    "craftax": "craftax",
    "navix": "navix",
    "pgx": "pgx",
}
"""The module of each library, by the word before the colon of its ids."""
_LISTED = {
    "gymnax": """
        CartPole-v1 Pendulum-v1 Acrobot-v1 MountainCar-v0 MountainCarContinuous-v0 Asterix-MinAtar
        Breakout-MinAtar Freeway-MinAtar Seaquest-MinAtar SpaceInvaders-MinAtar Catch-bsuite DeepSea-bsuite
        MemoryChain-bsuite UmbrellaChain-bsuite DiscountingChain-bsuite MNISTBandit-bsuite SimpleBandit-bsuite
        FourRooms-misc MetaMaze-misc PointRobot-misc BernoulliBandit-misc GaussianBandit-misc Reacher-misc
        Swimmer-misc Pong-misc FrozenLake-misc
    """,
    "brax": """
        ant fast halfcheetah hopper humanoid humanoidstandup inverted_pendulum inverted_double_pendulum pusher
        reacher swimmer walker2d
    """,
    "playground": """
        AcrobotSwingup AcrobotSwingupSparse BallInCup CartpoleBalance CartpoleBalanceSparse CartpoleSwingup
        CartpoleSwingupSparse CheetahRun FingerSpin FingerTurnEasy FingerTurnHard FishSwim HopperHop HopperStand
        HumanoidStand HumanoidWalk HumanoidRun PendulumSwingup PointMass ReacherEasy ReacherHard SwimmerSwimmer6
        WalkerRun WalkerStand WalkerWalk ApolloJoystickFlatTerrain BarkourJoystick
        BerkeleyHumanoidJoystickFlatTerrain BerkeleyHumanoidJoystickRoughTerrain G1JoystickFlatTerrain
        G1JoystickRoughTerrain Go1JoystickFlatTerrain Go1JoystickRoughTerrain Go1Getup Go1Handstand Go1Footstand
        H1InplaceGaitTracking H1JoystickGaitTracking Op3Joystick SpotFlatTerrainJoystick SpotGetup
        SpotJoystickGaitTracking T1JoystickFlatTerrain T1JoystickRoughTerrain AlohaHandOver
        AlohaSinglePegInsertion PandaPickCube PandaPickCubeOrientation PandaPickCubeCartesian PandaOpenCabinet
        PandaRobotiqPushCube LeapCubeReorient LeapCubeRotateZAxis AeroCubeRotateZAxis
    """,
    "jumanji": """
        BinPack-v2 CVRP-v1 Cleaner-v0 Connector-v3 FlatPack-v0 Game2048-v1 GraphColoring-v1 JobShop-v0
        Knapsack-v1 LevelBasedForaging-v0 MMST-v0 Maze-v0 Minesweeper-v0 MultiCVRP-v0 PacMan-v1
        RobotWarehouse-v0 RubiksCube-partly-scrambled-v0 RubiksCube-v0 SearchAndRescue-v0 SlidingTilePuzzle-v0
        Snake-v1 Sokoban-v0 Sudoku-v0 Sudoku-very-easy-v0 TSP-v1 Tetris-v0
    """,
    "craftax": """
        Craftax-Symbolic-v1 Craftax-Pixels-v1 Craftax-Classic-Symbolic-v1 Craftax-Classic-Pixels-v1
    """,
    "navix": """
        Navix-Empty-5x5-v0 Navix-Empty-6x6-v0 Navix-Empty-8x8-v0 Navix-Empty-16x16-v0 Navix-Empty-Random-5x5-v0
        Navix-Empty-Random-6x6-v0 Navix-Empty-Random-8x8-v0 Navix-Empty-Random-16x16-v0 Navix-DoorKey-5x5-v0
        Navix-DoorKey-6x6-v0 Navix-DoorKey-8x8-v0 Navix-DoorKey-16x16-v0 Navix-DoorKey-Random-5x5-v0
        Navix-DoorKey-Random-6x6-v0 Navix-DoorKey-Random-8x8-v0 Navix-DoorKey-Random-16x16-v0 Navix-FourRooms-v0
        Navix-KeyCorridorS3R1-v0 Navix-KeyCorridorS3R2-v0 Navix-KeyCorridorS3R3-v0 Navix-KeyCorridorS4R3-v0
        Navix-KeyCorridorS5R3-v0 Navix-KeyCorridorS6R3-v0 Navix-LavaGapS5-v0 Navix-LavaGapS6-v0
        Navix-LavaGapS7-v0 Navix-SimpleCrossingS9N1-v0 Navix-SimpleCrossingS9N2-v0 Navix-SimpleCrossingS9N3-v0
        Navix-SimpleCrossingS11N5-v0 Navix-Dynamic-Obstacles-5x5-v0 Navix-Dynamic-Obstacles-5x5-Random-v0
        Navix-Dynamic-Obstacles-6x6-v0 Navix-Dynamic-Obstacles-6x6-Random-v0 Navix-Dynamic-Obstacles-8x8-v0
        Navix-Dynamic-Obstacles-16x16-v0 Navix-DistShift1-v0 Navix-DistShift2-v0 Navix-GoToDoor-5x5-v0
        Navix-GoToDoor-6x6-v0 Navix-GoToDoor-8x8-v0
    """,
    "pgx": """
        2048 animal_shogi backgammon chess connect_four gardner_chess go_9x9 go_19x19 hex kuhn_poker
        leduc_holdem minatar-asterix minatar-breakout minatar-freeway minatar-seaquest minatar-space_invaders
        othello shogi sparrow_mahjong tic_tac_toe
    """,
}
IDS = {library: text.split() for library, text in _LISTED.items()}
"""The environments of each library, in the versions that constraints.txt names."""


def source_of(env_id: str) -> str:
    """Return the word before the colon of an id, where it is that of a library; else empty."""
    library, colon, _ = env_id.partition(":")
    return library if colon and library in _MODULES else ""


def listed(games: bool) -> list[str]:
    """Return the ids of pgx's games, or of all others."""
    return [f"{name}:{each}" for name, ids in IDS.items() if (name == "pgx") == games for each in ids]


def installed(library: str) -> bool:
    """Return True where a library can be found; nothing is imported."""
    with suppress(ImportError, ValueError):
        return importlib.util.find_spec(_MODULES[library]) is not None
    return False
