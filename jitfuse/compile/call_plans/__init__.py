"""Call plans: what one mode of one signature does in every call, as plain numbers, and the errors of its steps."""
