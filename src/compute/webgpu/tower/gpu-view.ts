// A view on its way through the tower on the GPU: its rows lie in one buffer, all that its program lists in another, and each
// piece of an operation is one submission.

import type { ImageView, PatchStep } from '../../../model/vision/vision-spec.ts';
import { ImageTooLargeError } from '../../image-failures.ts';
import type { TokenGroups, TowerOperation, TowerProgram } from '../../tower/program.ts';
import type { ViewRun } from '../../tower/program-run.ts';
import type { Gpu } from '../gpu.ts';
import { VIEW_QUERIES } from '../kernels/tower/attend-view.ts';
import { type Piece, pieceWords } from '../kernels/tower/piece-layout.ts';
import type { GpuMemory } from '../memory.ts';
import type { Passes } from '../passes.ts';
import type { StepCounts } from '../plan-step.ts';
import type { Programs } from '../programs.ts';
import type { Scratch } from '../scratch.ts';
import { patchRows } from './patch-rows.ts';
import type { Tower } from './tower.ts';
import { listsOf, placesOf, type ViewLists, type ViewPlaces } from './view-layout.ts';

export interface TowerResources {
  readonly gpu: Gpu;
  readonly memory: GpuMemory;
  readonly tower: Tower;
  readonly scratch: Scratch;
  readonly programs: Programs;
  readonly passes: Passes;
}

interface OpenBuffers {
  readonly view: GPUBuffer;
  readonly lists: GPUBuffer;
}

export class GpuView implements ViewRun {
  readonly #resources: TowerResources;
  readonly #program: TowerProgram;
  readonly #view: ImageView;
  readonly #places: ViewPlaces;
  readonly #lists: ViewLists;
  #buffers: OpenBuffers | undefined;

  constructor(resources: TowerResources, program: TowerProgram, view: ImageView) {
    this.#resources = resources;
    this.#program = program;
    this.#view = view;
    this.#places = placesOf(program, resources.tower.flat);
    this.#lists = listsOf(program);
  }

  async run(index: number, firstRow: number, count: number): Promise<void> {
    const { scratch, tower, gpu, programs, passes } = this.#resources;
    this.#buffers ??= await this.#open();
    if (!gpu.info.software) await tower.compile(programs);
    this.#bind(this.#buffers);
    const end = firstRow + count;
    for (let row = firstRow; row < end; row += scratch.rows) {
      this.#submit(index, row, Math.min(scratch.rows, end - row));
    }
    await passes.settle();
  }

  async read(output: number, into: Float32Array): Promise<void> {
    const { gpu, memory, passes } = this.#resources;
    const { buffer } = this.#program.outputs[output] as TowerProgram['outputs'][number];
    const readback = await memory.readback('features', into.byteLength);
    try {
      const encoder = gpu.device.createCommandEncoder();
      const { view } = this.#buffers as OpenBuffers;
      const at = 4 * (this.#places.buffers.get(buffer) as number);
      encoder.copyBufferToBuffer(view, at, readback, 0, into.byteLength);
      gpu.device.queue.submit([encoder.finish()]);
      await passes.settle();
      // GPUMapMode.READ
      await readback.mapAsync(1);
      into.set(new Float32Array(readback.getMappedRange()).subarray(0, into.length));
    } finally {
      memory.drop(readback);
    }
  }

  close(): void {
    const { memory } = this.#resources;
    for (const buffer of Object.values(this.#buffers ?? {})) memory.drop(buffer);
    this.#buffers = undefined;
  }

  async #open(): Promise<OpenBuffers> {
    const { gpu, memory } = this.#resources;
    const bytes = 4 * this.#places.floats;
    const { bindingBytes } = gpu.info.limits;
    if (bytes > bindingBytes) {
      const { width, height } = this.#program;
      throw new ImageTooLargeError(
        `an image of ${width} x ${height} pixels takes ${bytes} bytes, more than this GPU binds (${bindingBytes})`,
      );
    }
    const lists = await memory.filled('lists of a view', this.#lists.words);
    try {
      return { view: await memory.storage('rows of a view', bytes), lists };
    } catch (error) {
      memory.drop(lists);
      throw error;
    }
  }

  /** Another image may have run in between. */
  #bind({ view, lists }: OpenBuffers): void {
    const { tower } = this.#resources;
    if (tower.buffers.view.value.current === view) return;
    tower.buffers.view.value.current = view;
    tower.buffers.lists.value.current = lists;
    tower.rebind();
  }

  #submit(index: number, first: number, rows: number): void {
    const { gpu, scratch, tower, programs } = this.#resources;
    const { queue } = gpu.device;
    const operation = this.#program.operations[index] as TowerOperation;
    if (operation.kind === 'patches') {
      const { values } = this.#program;
      const step = tower.flat[operation.step] as PatchStep;
      const patches = patchRows(step, { columns: operation.columns, values }, this.#view, first, rows);
      queue.writeBuffer(tower.buffers.patches.value, 0, patches);
    }
    const items = operation.kind === 'attend' ? itemsOf(this.#groups(operation.groups), first, rows) : [];
    const words = pieceWords({ ...this.#piece(index, operation), rows, first, items });
    queue.writeBuffer(scratch.step, 0, words);
    const encoder = gpu.device.createCommandEncoder();
    const pass = encoder.beginComputePass();
    const counts = countsOf(rows, items.length / 4);
    for (const one of tower.operationsOf(operation)) one.encode(programs, pass, counts);
    pass.end();
    queue.submit([encoder.finish()]);
  }

  #piece(index: number, operation: TowerOperation): Omit<Piece, 'rows' | 'first'> {
    const { buffers, heads } = this.#places;
    const { operations, rotations, groups } = this.#lists;
    const target = buffers.get(operation.to.buffer) as number;
    if (operation.kind === 'patches') return { target };
    const source = buffers.get(operation.from.buffer) as number;
    const places = { source, target, size: operation.from.size, heads };
    switch (operation.kind) {
      case 'project':
        return { ...places, lists: [0, rotations[operation.rotation ?? 0] ?? 0] };
      case 'attend':
        return { ...places, lists: [groups[operation.groups] as number] };
      case 'gather':
        return { ...places, lists: operations[index] as readonly number[], members: operation.members };
      default:
        return { ...places, lists: operations[index] as readonly number[] };
    }
  }

  #groups(index: number): TokenGroups {
    return this.#program.groups[index] as TokenGroups;
  }
}

/** Queries of a piece in items, each of one group. */
function itemsOf({ starts }: TokenGroups, first: number, rows: number): number[] {
  const items: number[] = [];
  let group = 0;
  for (let query = first; query < first + rows; ) {
    while ((starts[group + 1] as number) <= query) group++;
    const end = starts[group + 1] as number;
    const count = Math.min(VIEW_QUERIES, first + rows - query, end - query);
    items.push(query, count, starts[group] as number, end);
    query += count;
  }
  return items;
}

const countsOf = (rows: number, items: number): StepCounts => ({
  rows,
  adapted: 0,
  wanted: 0,
  states: 0,
  sequences: 0,
  attention: [{ items, merges: 0, many: 0 }],
  images: 0,
  deepstack: 0,
});
