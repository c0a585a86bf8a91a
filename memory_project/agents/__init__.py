"""Programs that work beside agents: what they send to Commonplace, and what it sends back to them."""
