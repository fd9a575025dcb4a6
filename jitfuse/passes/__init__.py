"""Passes: functions from program to program, valid in, valid out, in one visible tuple (`pipeline`)."""
