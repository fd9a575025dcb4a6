"""The order of a graph's steps: levels, schedules by integer programming, and the resulting program."""
