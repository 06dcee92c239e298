"""A wrapper whose rewards and ends depend on all episodes before."""

import gymnasium


class Aged(gymnasium.Wrapper):
    """Adds the steps since construction to rewards, and cuts an episode where their number divides by `every`."""

    def __init__(self, env, every=7):
        super().__init__(env)
        self.age, self._every = 0, every

    def step(self, action):
        observation, reward, terminated, truncated, info = self.env.step(action)
        self.age += 1
        return observation, reward + self.age, terminated, truncated or self.age % self._every == 0, info

    def state(self):
        return {"age": self.age}

    def load_state(self, state):
        self.age = state["age"]
