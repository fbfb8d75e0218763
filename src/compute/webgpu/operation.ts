// One kernel with its buffers, ready to be put into a pass; a forward pass is a list of them.

import { type Bindable, ReplaceableBuffer } from './memory.ts';
import type { StepCounts } from './plan-step.ts';
import type { Programs } from './programs.ts';

/** Workgroups for a step, along x and y; none where the operation has nothing to do. */
export type Grid = (counts: StepCounts) => readonly [number, number];

interface Variant {
  readonly text: string;
  readonly grid: Grid;
}

/** Kernels that few steps need are compiled when the first of them comes. */
export type Compiling = 'at start' | 'when needed';

interface Bound {
  readonly pipeline: GPUComputePipeline;
  readonly group: GPUBindGroup;
}

export class Operation {
  readonly name: string;
  readonly #variants: readonly Variant[];
  readonly #choose: (counts: StepCounts) => number;
  readonly #buffers: readonly Bindable[];
  readonly #compiling: Compiling;
  readonly #bound: (Bound | undefined)[] = [];

  /** Variants compute the same for different steps; `choose` picks one. All bind the same buffers. */
  constructor(
    name: string,
    variants: readonly Variant[],
    buffers: readonly Bindable[],
    choose: (counts: StepCounts) => number = () => 0,
    compiling: Compiling = 'at start',
  ) {
    this.name = name;
    this.#variants = variants;
    this.#buffers = buffers;
    this.#choose = choose;
    this.#compiling = compiling;
  }

  /** Starts compiling all variants; others are compiled when they are first needed. */
  compile(programs: Programs): void {
    if (this.#compiling === 'when needed') return;
    for (const { text } of this.#variants) programs.add(this.name, text);
  }

  /** After a buffer was replaced: binds again when next needed. */
  rebind(): void {
    if (this.#buffers.some((buffer) => buffer instanceof ReplaceableBuffer)) this.#bound.length = 0;
  }

  encode(programs: Programs, pass: GPUComputePassEncoder, counts: StepCounts): void {
    const chosen = this.#choose(counts);
    const { text, grid } = this.#variants[chosen] as Variant;
    const [x, y] = grid(counts);
    if (x === 0 || y === 0) return;
    const { pipeline, group } = this.#bound[chosen] ?? this.#bind(programs, chosen, text);
    pass.setPipeline(pipeline);
    pass.setBindGroup(0, group);
    pass.dispatchWorkgroups(x, y);
  }

  #bind(programs: Programs, chosen: number, text: string): Bound {
    const buffers = this.#buffers.map((one) => (one instanceof ReplaceableBuffer ? one.current : one));
    const bound = { pipeline: programs.pipeline(this.name, text), group: programs.bind(text, buffers) };
    this.#bound[chosen] = bound;
    return bound;
  }
}
