"""What to type for algorithms of the field that are options here."""

from __future__ import annotations

APEX = "Its name here: maze train apex"
C51 = "It is DQN with probabilities of fixed values: maze train dqn --head categorical"
DOUBLE = "It is an option of DQN: maze train dqn --double"
PARAMETRIC = (
    "It is an option of the model, for dqn and ppo: maze train dqn --set 'model.choice_features={action: LEAF}', where "
    "LEAF is the observation's leaf with a row of features for each choice"
)
QUANTILE = "It is DQN with quantiles: maze train dqn --head quantile"
R2D2 = "It is DQN with memory: maze train dqn --set model.memory=gru"
RAINBOW = "It is a preset of DQN: maze train dqn --preset rainbow"
