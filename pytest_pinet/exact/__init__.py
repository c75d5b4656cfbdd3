"""Exact boards: from a build to counts of instructions, in a virtual machine whose clock counts instructions."""
