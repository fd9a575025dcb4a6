"""Programs as text, JSON, MessagePack and pictures, and reading them back."""
