"""Writes the grids of GGUF's IQ1, IQ2 and IQ3 types in the form that this project keeps them in, for src/weights/quants/iq-grids.ts
and native/model/iq-grids.h. The numbers are those of the Python package gguf (tried with 0.19): pip install gguf.

An entry of a grid is one of eight values in two bits each, or of four values in four bits each, first value lowest; the values are places
in a list of steps. Entries are 16 bits, little-endian, in base64.
"""

import base64

import numpy as np
from gguf import quants

GRIDS = {
    "iq2xxs": quants.IQ2_XXS,
    "iq2xs": quants.IQ2_XS,
    "iq2s": quants.IQ2_S,
    "iq3xxs": quants.IQ3_XXS,
    "iq3s": quants.IQ3_S,
    "iq1": quants.IQ1_S,
}

for name, kind in GRIDS.items():
    kind.init_grid()
    steps = [int(step) for step in kind.grid_map]
    grid = kind.grid.reshape(kind.grid_shape).astype(int)
    bits = 16 // grid.shape[1]
    places = np.vectorize(steps.index)(grid)
    entries = (places << (bits * np.arange(grid.shape[1]))).sum(axis=1).astype("<u2")
    print(f"{name} {len(entries)} entries of {grid.shape[1]} values, steps {steps}")
    print(base64.b64encode(entries.tobytes()).decode())
