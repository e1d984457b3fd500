"""Inputs that nobody would write, for every reader: `make fuzz` explores, `make check` replays findings.

A family is a file of `families/` with
    SUFFIX   of the file that an input becomes
    SHARE    inputs of every round; cheap readers get many
    seeds()  inputs to begin with, as bytes; what lies in corpus/FAMILY/ is added
    mutate(data, rng)  another input, made from one
    attempt(path)      reads the file, and builds and runs what it holds for a while
    prepare()          optional: what may take long and is no part of an attempt, such as compiling kernels

An attempt may only fail with an error of npuviz's own tree, of one line. Whatever else is raised is a leak.
Work that tells its progress is cancelled after some seconds and counted; what then goes on hangs.
"""
