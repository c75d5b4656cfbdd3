"""How often the gate's verdicts are right, and what they cost, beside the rules of others; see ``python -m``."""
