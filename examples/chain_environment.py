"""The gymnasium environment of hand-overs, played by a random agent."""

import numpy as np

import mirage as m

env = m.ChainEnv(cost=m.Cost(3, 1), link_nodes=1, windows=8)
rng, rewards = np.random.default_rng(0), []
for episode in range(8):
    env.reset(seed=episode, options={"episode": episode})
    terminated = False
    while not terminated:
        _, reward, terminated, _, info = env.step(np.int64(rng.random() < 0.02))
    rewards.append(reward)
    print(f"episode {episode}: interrupted {info['interruption_h']:.1f} h, overlap {info['overlap_h']:.1f} h")
print(f"mean reward {np.mean(rewards):.2f}")
