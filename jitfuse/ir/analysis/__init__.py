"""What can be said of a program without running it: whether it is valid, what it needs, what it costs to plan."""
