"""Images as the network sees them: axes, normalization, patches."""
