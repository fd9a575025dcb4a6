"""From kernel forms to WGSL text. Needs no adapter: what depends on one comes in as `Facts` and `Variant`."""
