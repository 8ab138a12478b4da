"""From a trained network to denoised images."""
