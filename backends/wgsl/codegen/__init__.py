"""From kernel forms to WGSL text. Needs no adapter: `Facts` and `Variant` hold all that depends on one."""
