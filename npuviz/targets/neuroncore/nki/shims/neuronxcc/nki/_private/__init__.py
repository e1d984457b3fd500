"""Stand-in for a part of the vendor's package that has no public documentation."""

from npuviz.targets.neuroncore.nki.record.guarding import undocumented_import

raise undocumented_import("neuronxcc.nki._private")
