"""Stand-in for the kernels that the vendor's package brings."""

from npuviz.targets.neuroncore.nki.record.guarding import vendors_import

raise vendors_import("neuronxcc.nki.kernels", "aws-neuron/nki-samples, src/nki_samples/reference")
