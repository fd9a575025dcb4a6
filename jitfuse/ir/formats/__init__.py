"""Programs as text, JSON, MessagePack and pictures, and read back."""
