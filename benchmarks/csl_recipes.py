"""Commands that run the programs of public CSL repositories, from their README files, in small sizes.

No file of a repository is changed.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Recipe:
    """A shell command to run in a folder of the repository, with the tools on its path.

    compares  False: the host program compares no values, although other files of its folder may
    """

    label: str
    folder: str
    command: str
    compares: bool = True


_PARAMS = "--params=Nx_start:1,Pw:{w},Ph:{h},Algo:{algo},is_allred:{all},step:4"
"""Parameters as in the repository's scripts: 13 vectors from 1 to 4096 words, the length of its arrays."""
_WAFER = "--fabric-dims={fabric} --fabric-offsets=4,1 -o out --memcpy --channels=1"
_COMPILE = "cslc {layout} " + _WAFER + " " + _PARAMS
_RUN = " && cs_python {run} --name out"
_PRE_ORDER = "python generate_pre_order_2d.py 16 64 x && "
_BROADCAST = (
    "cslc layout_broadcast.csl --params=Nx:64,Pw:16,Algo:0,is_allred:0,step:0 "
    + _WAFER.format(fabric="519,3")
    + _RUN.format(run="run_bcast.py")
)


_CELLS = (
    "cslc layout.csl --fabric-dims=11,6 --fabric-offsets=4,1 --params=w:4,h:4,steps:8 --memcpy --channels=1 "
    "--arch=wse3 --max-inlined-iterations=1000000 -o out" + _RUN.format(run="run.py")
)
_TILES = (
    "cslc layout.csl --fabric-dims=11,6 --fabric-offsets=4,1 --memcpy --channels=1 --arch=wse3 -o out "
    "--params=w:{side},h:{side},tile_width:8,tile_height:8,radius:{radius}"
    + _RUN.format(run="run.py")
    + " --num-iterations 3"
)
"""Used instead of the repository's scripts, which then read traces that only the vendor's simulator
writes."""


_COLORING = (
    "python picasso/run_csl_tests.py --num-pes {pes} --grid-rows {rows} --routing {routing} --skip-h2 "
    "--run-id one --test {test}"
)
_ALLREDUCE = (
    "cslc src/layout.csl --arch wse3 --fabric-dims=12,7 --fabric-offsets=4,1 --params=width:4,height:4 "
    "--params=C0_ID:8 -o out --memcpy --channels=1 && cs_python run.py --width 4 --height 4 --calls 10 "
    "--out-dir out"
)


def _colorings() -> tuple[Recipe, ...]:
    tests = ("test1_all_commute_4nodes", "test5_dense_8nodes", "test7_complete_16nodes")
    ways = ((4, 1, "sw-relay"), (4, 1, "pipelined-lww"), (16, 4, "pipelined-lww --lww-layout 2d_seg2"))
    return (
        *(
            Recipe(
                f"{test}, {routing}", ".", _COLORING.format(pes=pes, rows=rows, routing=routing, test=test)
            )
            for test in tests
            for pes, rows, routing in ways
        ),
        Recipe("allreduce", "spikes/experiments/allreduce_spike", _ALLREDUCE, compares=False),
    )


def _collectives() -> tuple[Recipe, ...]:
    lines = [
        Recipe(
            f"1d {algo}",
            ".",
            (_COMPILE + _RUN).format(
                layout="layout_1d_test_inc.csl",
                fabric="519,3",
                w=16,
                h=1,
                algo=algo,
                all=algo % 2,
                run="run_2d_specific_pe_test.py",
            ),
        )
        for algo in range(4)
    ]
    grids = [
        Recipe(
            f"2d {algo}",
            ".",
            (_COMPILE + _RUN).format(
                layout="layout_2d_test.csl",
                fabric="519,514",
                w=8,
                h=8,
                algo=algo,
                all=algo % 2,
                run="run_2d_test.py",
            ),
        )
        for algo in range(4)
    ]
    order = (_PRE_ORDER + _COMPILE + _RUN).format(
        layout="layout_1d_pre_order_test.csl",
        fabric="519,3",
        w=16,
        h=1,
        algo=0,
        all=0,
        run="run_2d_specific_pe_test.py",
    )
    return (*lines, *grids, Recipe("1d pre-order", ".", order), Recipe("broadcast", ".", _BROADCAST))


_DECODE = "; test -f sim.log"
"""Appended, because the script ends with an `rm` of files that only a cluster leaves, which fails."""


def _wafer_models() -> tuple[Recipe, ...]:
    found = [
        Recipe(f"{name}/{arch}", f"{name}/{arch}", f"bash run_sim.sh {arguments}")
        for arch in ("WSE-2", "WSE-3")
        for name, arguments in (("MeshGEMV", "4 16 16 2"), ("MeshGEMM", "4 16 16 16"), ("Decode", _DECODE))
    ]
    return (*found, Recipe("Prefill/WSE-2", "Prefill/WSE-2", "bash run_sim.sh"))


def _prefills() -> tuple[Recipe, ...]:
    """Return the recipes of the README: the layer on the simulator, and attention alone in sizes with
    files."""
    layers = ("test-sim", "test-sim-gqa", "test-sim-seq1")
    heads = ("", "-1head", "-base", "-g2h8", "-g4", "-hd2", "-seq2")
    build = "python compile.py --mode sim --config model_config/{0}.json && "
    run = "cs_python {1}.py --config model_config/{0}.json"
    return (
        *(Recipe(name, "Prefill", (build + run).format(name, "launch_sim")) for name in layers),
        *(
            Recipe(
                f"attn-p8{head}",
                "Prefill",
                (build + run).format(f"test-sim-attn-p8{head}", "launch_sim_attn"),
            )
            for head in heads
        ),
        Recipe("rope", "Prefill", (build + run + " --rope").format("test-sim-attn-p8", "launch_sim_attn")),
    )


def _wafer_forks() -> tuple[Recipe, ...]:
    """Return recipes for the kernels that the fork adds or changes, in sizes of its sweeps."""
    products = ("col-gemv", "col-major", "row-gemv", "row-major")
    return (
        *(
            Recipe(f"MeshGEMM/{name}", f"MeshGEMM/WSE-3-{name}", "bash run_sim.sh 4 16 16 16 1 1")
            for name in products
        ),
        Recipe("MeshGEMM-T", "MeshGEMM-T/WSE-3", "bash run_sim.sh 3 6 2 1 1"),
        Recipe("MeshGEMM/WSE-2", "MeshGEMM/WSE-2", "bash run_sim.sh 4 16 16 16"),
        Recipe("MeshGEMV/WSE-2", "MeshGEMV/WSE-2", "bash run_sim.sh 4 16 16 2"),
        Recipe("MeshGEMV/WSE-3", "MeshGEMV/WSE-3", "bash run_sim.sh 4 16 16 1 2"),
        *(
            Recipe(f"Decode/{arch}", f"Decode/{arch}", f"bash run_sim.sh {_DECODE}")
            for arch in ("WSE-2", "WSE-3")
        ),
        Recipe("Prefill/WSE-2", "Prefill/WSE-2", "bash run_sim.sh"),
    )


RSYNC = 'rsync() { shift; cp -rT "${@: -2:1}" "${@: -1}"; }; export -f rsync; '
"""A replacement for rsync, with the options that the scripts below use, for computers without it."""
_LIFE = (
    "uuidgen() { cat /proc/sys/kernel/random/uuid; }; export -f uuidgen; "
    "export WSE_GOL_NROW=4 WSE_GOL_NCOL=4; bash compile.sh && bash execute.sh"
)
"""Sets the sizes, for which the two scripts have different defaults. Needs compconf, polars 1 and the
submodule."""
_SKETCH = "bash compile.sh && bash execute.sh"
_COLORS = "python -m picasso.run_csl_tests --num-pes 2 --test test1 --golden-dir tests/golden"
_SPIKES = (
    "cp3_rx_merge_probe",
    *(f"experiments/{name}_spike" for name in ("allreduce", "pipelined_lww_1d_seg2", "pipelined_lww_1d_seg")),
    *(f"experiments/{name}_spike" for name in ("pipelined_lww_1d", "rotating_root_2d", "rotating_root")),
)
_CONFIG = "--name out --config config/small.toml"
_ANNEALING = f"cs_python src/build.py {_CONFIG} && cs_python src/run.py {_CONFIG}"
"""The commands that the repository's script runs inside a container."""

_WRAPPER = "PYTHONPATH=$PWD/../../sdkwrapper:$PYTHONPATH bash compile_and_run_{script}singularity.sh"
"""With the repository's host package on the path, which the README installs first."""
_SLIDE = (
    "cslc layout.csl --fabric-dims={fabric},3 --fabric-offsets=4,1 --params=kernel_width:{width} "
    "--params=num_elems:{words} -o=out --arch=wse3 --memcpy --channels=1 "
    "--max-inlined-iterations=1000000 && cs_python run.py --name=out"
)
"""One of the sizes of the repository's sweep.py."""

_LINE = (
    "cslc {layout}.csl --arch=wse2 --fabric-dims=15,3 --fabric-offsets=4,1 -o out --memcpy --channels=1 "
    "--params=Nx_start:1,Pw:8,Ph:1,Algo:{algo},is_allred:{all},step:2,repeats:1{more} && "
    "CEREBRAS_SIM_ENVIRONMENT=1 cs_python run_inc_test.py --name out --nx-max 32"
)


def _newer_collectives() -> tuple[Recipe, ...]:
    """Return the recipes of commands_inc.sh (WSE-2), with 8 PEs and up to 32 words; the last algorithm has
    another layout."""
    return tuple(
        Recipe(
            f"1d {algo}, {'all' if is_all else 'one'}",
            ".",
            _LINE.format(
                layout="layout_bine_inc" if algo == 4 else "layout_1d_test_inc",
                algo=algo,
                all=is_all,
                more=",Nx_max:32" if algo == 4 else "",
            ),
            compares=False,
        )
        for is_all in (0, 1)
        for algo in range(5)
    )


_NEIGHBOURS = (
    "cslc --arch=wse2 layout.csl --fabric-dims=11,6 --fabric-offsets=4,1 --memcpy --channels=1 -o out "
    "--params=P:{p},d_dim:{d},rows_per_pe:{rows},K:{k} && cs_python run.py --name out --case {case}"
)


def _neighbours(one: str = "k_eq_1", large: str = "k_large") -> tuple[Recipe, ...]:
    """Return the six cases of the task's tests; repositories use different names for two of them."""
    cases = (
        ("baseline", 4, 32, 128, 16),
        (one, 2, 32, 256, 1),
        (large, 2, 16, 256, 256),
        ("uneven", 4, 32, 64, 16),
        ("all_equal", 2, 16, 256, 16),
        ("duplicates", 2, 16, 256, 8),
    )
    return tuple(
        Recipe(case, "src-starter", _NEIGHBOURS.format(p=p, d=d, rows=rows, k=k, case=case))
        for case, p, d, rows, k in cases
    )


RECIPES: dict[str, tuple[Recipe, ...]] = {
    "DaXor-0+spatial-collectives": _newer_collectives(),
    "DaBestCode+cerebras-kernel-challenge": _neighbours("k=1", "k=256"),
    "cerebras-kernel-challenge": _neighbours(),
    "spatial-collectives": _collectives(),
    "siddharthbc+CSR-graph-coloring": _colorings(),
    "WaferLLM": _wafer_models(),
    "junesookang+WaferLLM": _wafer_forks(),
    "davendw49+WaferLLM": (
        *_wafer_models(),
        *(
            Recipe(f"Decode/{name}", "Decode/WSE-3-GQA", f"bash run_sim_{name}.sh{_DECODE}")
            for name in ("gqa", "gqa_full")
        ),
    ),
    "woonyee28+WaferLLM": (
        *_prefills(),
        Recipe("Decode", "Decode", "bash run_sim.sh model_config/test-sim.json"),
        Recipe("SUMMA", "SUMMA", "bash run_sim.sh 4 16 16 16"),
        Recipe("MeshGEMM", "MeshGEMM", "bash run_sim.sh 4 16 16 16"),
        Recipe("MeshGEMV", "MeshGEMV", "bash run_sim.sh 4 16 16 2"),
    ),
    "cs5220_hw4": (Recipe("gemm", ".", "bash run.sh"),),
    "sem_pytorch_cerebras": (Recipe("csl", "csl", "bash run_wse3.sh"),),
    "wse-sketches": tuple(
        Recipe(name, name, RSYNC + _SKETCH)
        for name in (
            "kernel-async-ga",
            "kernel-self-driving",
            "kernel-simple-ga",
            "kernel-test-cerebraslib",
            "kernel-test-memcpy",
        )
    ),
    "wse-gol": (Recipe("kernel-gol", "kernel-gol", RSYNC + _LIFE, compares=False),),
    "simulated-annealing-on-wse": (Recipe("small", ".", _ANNEALING),),
    "CSR-graph-coloring": (
        Recipe("colors", ".", _COLORS),
        *(Recipe(name, f"spikes/{name}", "commands.sh") for name in _SPIKES),
    ),
    "mc_on_accelerators": (
        Recipe("full", "csl/full_implementation", _WRAPPER.format(script="on_")),
        Recipe("row reduce", "csl/row_reduce_study", _WRAPPER.format(script="")),
    ),
    "sliding-window": (
        Recipe("duplex", "duplex", _SLIDE.format(fabric=10, width=3, words=500)),
        *(
            Recipe(name, name, _SLIDE.format(fabric=15, width=8, words=10))
            for name in ("fft-duplex", "synchronous-slide", "synchronous-slide-right")
        ),
    ),
    "cerebras": (
        Recipe("non-tiled-tencil", "non-tiled-tencil", _CELLS),
        *(
            Recipe(
                f"tiled-stencil, radius {radius}",
                "tiled-stencil",
                _TILES.format(side=16 + 2 * radius, radius=radius),
            )
            for radius in (1, 2)
        ),
    ),
    "SpMM_Cerebras": (Recipe("formats", "src/automated_testing", "bash run_test.sh 16 16 30 4 4 16"),),
}
"""Name of a repository, with or without its owner -> recipes to use instead of its command scripts, which
take hours (spatial-collectives: rows of 512) or do not exist."""

INCOMPLETE = {
    "hands-on/ex1-single-PE-GEMV/commands.sh": "an exercise: the solution is in folders of its own",
    "hands-on/ex2-multi-PE-GEMV/commands.sh": "an exercise: the solution is in a folder of its own",
    "hands-on/ex3-multi-PE-GEMV-collective/commands.sh": "an exercise, with a solution of its own",
    "walk-through/wt1-getting-started/commands.sh": "an exercise: without unblock_cmd_stream()",
    "walk-through/wt3-memcpy/commands.sh": "an exercise: a factor of 1 where the host expects 2",
    "walk-through/wt6-routes-fabricDSDs/commands.sh": "holds TODO where the reader writes code",
    "hands-on/ex1-single-PE-GEMV/wafer/commands.sh": "for a cluster, by its batch system",
    "walk-through/wafer-version-wt3-memcpy/commands.sh": "for a cluster, by its batch system",
    "GEMV-Appliance/commands.sh": "for the appliance, through cerebras.sdk.client",
    "gemv/new_streaming_experiment/commands_wse3.sh": "gives no value for MEMCPYH2D_DATA_3_ID",
    "gemv/newest_streaming_experiment/commands_wse3.sh": "gives no value for MEMCPYH2D_DATA_3_ID",
    "Tutorial_Code/commands.sh": "an exercise: the whole program is in Reference_Code_Complete",
    "fft-duplex": "sets configuration registers that nothing public describes",
    "1d 4, one": "its tree (bine.csl) goes on by two stages at each vector: more than 4 PEs wait for ever",
    "1d 4, all": "its tree (bine.csl) goes on by two stages at each vector: more than 4 PEs wait for ever",
    "attn-p8-1head": "its sends of one element have an extent of 0: rounded down to whole groups of 4",
    "attn-p8-base": "two rows a PE, where its sources normalise all by the factor of the first",
    "attn-p8-seq2": "two rows a PE, where its sources normalise all by the factor of the first",
    "hw_4/run.sh": "an exercise: config.py has blanks to fill in",
    "decode/commands_wse3.sh": "gives no value for valid_kv",
    "gemm_25D_experiment/commands_wse2.sh": "blocks input queues, which @block takes on WSE-3 only",
    "gemm_25D_experiment/commands_wse3.sh": "gives run.py none of the arguments that it requires",
    "reduce_2colors_2phase/commands.sh": "512 PEs on a fabric of 512 x 1, without room for its host",
}
"""End of the path of a command script -> reason why no simulator can run it unchanged."""
