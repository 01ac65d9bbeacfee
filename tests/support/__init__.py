"""What tests share: cases, strategies, oracles, commands."""
