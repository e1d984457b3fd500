"""The smallest complete target: a chip with three units that runs element-wise programs."""
