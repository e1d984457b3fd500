"""Lower operators that only move or make elements, with indices known when compiling or at run time."""
