"""A policy of your own, checked against the contract that every policy meets."""

import mirage as m


class HalfTime:
    """Submits the next link when half of the present one's time is over."""

    def decide(self, view: m.View) -> m.Plan:
        chain = view.chain
        if chain is None or chain.started_s < 0:
            return m.Plan((m.Wait(reason="predecessor-pending"),))
        middle_s = (chain.started_s + chain.ends_s) // 2
        if view.now_s >= middle_s:
            return m.Plan((m.Submit(reason="half-time"),))
        return m.Plan((m.Wait(reason="first-half", until_s=middle_s),))


m.check_policy(HalfTime)
print("HalfTime meets the contract; built in are", ", ".join(m.known_policies()))
