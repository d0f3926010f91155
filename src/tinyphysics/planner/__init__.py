"""Which method, at what cost, and why: from facts and a goal to a plan that can be read."""
