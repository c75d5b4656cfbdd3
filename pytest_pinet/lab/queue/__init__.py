"""Queues for several runs on one host or in one lab: their order, and how long they wait."""
