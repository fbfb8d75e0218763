// Where what a view has lies in its two buffers: rows of floats, and all that its program lists.

import type { GridAttentionSpec, TowerStep } from '../../../model/vision/vision-spec.ts';
import { flatSteps, type Taps, type TowerProgram } from '../../tower/program.ts';

/** Cells of a view that memory is planned for: SigLIP's 4,096. Larger ones take what is free, or are refused. */
const PLANNED_CELLS = 4096;

/** Where rows lie among the floats of a view. */
export interface ViewPlaces {
  readonly buffers: ReadonlyMap<number, number>;
  /** Queries, keys and values. */
  readonly heads: readonly number[];
  readonly floats: number;
}

export function placesOf({ operations, outputs }: TowerProgram, flat: readonly TowerStep[]): ViewPlaces {
  const sizes = new Map<number, number>();
  let headFloats = 0;
  for (const rows of [...operations.map(({ to }) => to), ...outputs]) {
    sizes.set(rows.buffer, Math.max(sizes.get(rows.buffer) ?? 0, rows.rows * rows.size));
  }
  for (const operation of operations) {
    if (operation.kind !== 'project') continue;
    const { headCount, headSize } = bodyOf(flat[operation.step], operation.branch);
    headFloats = Math.max(headFloats, operation.to.rows * headCount * headSize);
  }
  const buffers = new Map<number, number>();
  let floats = 0;
  for (const [buffer, size] of sizes) {
    buffers.set(buffer, floats);
    floats += size;
  }
  const heads = [0, 1, 2].map((part) => floats + part * headFloats);
  return { buffers, heads, floats: floats + 3 * headFloats };
}

function bodyOf(step: TowerStep | undefined, branch: number): GridAttentionSpec {
  const body = step?.kind === 'layer' ? step.branches[branch]?.body : undefined;
  if (body?.kind !== 'grid-attention') throw new Error('a tower projects for attention alone');
  return body;
}

/** What a program lists, as words, and where each list starts. */
export interface ViewLists {
  readonly words: Uint32Array<ArrayBuffer>;
  /** Of each operation. */
  readonly operations: readonly (readonly number[])[];
  readonly rotations: readonly number[];
  /** Orders of groups. */
  readonly groups: readonly number[];
}

export function listsOf({ operations, rotations, groups }: TowerProgram): ViewLists {
  const lists: Uint32Array[] = [];
  let count = 0;
  const add = (list: Int32Array | Float32Array): number => {
    const at = count;
    lists.push(new Uint32Array(list.buffer, list.byteOffset, list.length));
    count += list.length;
    return at;
  };
  const addTaps = ({ starts, rows, weights }: Taps) => [add(starts), add(rows), add(weights)];
  const places = {
    operations: operations.map((operation) => {
      if (operation.kind === 'gather') return [add(operation.sources)];
      return operation.kind === 'table' ? addTaps(operation.taps) : [];
    }),
    rotations: rotations.map(({ values }) => add(values)),
    groups: groups.map(({ order }) => add(order)),
  };
  const words = new Uint32Array(count);
  let at = 0;
  for (const list of lists) {
    words.set(list, at);
    at += list.length;
  }
  return { words, ...places };
}

/** Of a view that memory is planned for: its cells before and after a step, and their queries, keys and values. */
export function plannedViewBytes(steps: readonly TowerStep[]): number {
  const flat = flatSteps(steps);
  const bodies = flat.flatMap((step) => (step.kind === 'layer' ? step.branches.map(({ body }) => body) : []));
  const widths = bodies.map((body) => (body.kind === 'grid-attention' ? body.headCount * body.headSize : 0));
  const [patches] = flat.map((step) => (step.kind === 'patches' ? step.linears[0]?.weight.rows : undefined));
  return 4 * PLANNED_CELLS * (2 * (patches ?? 0) + 3 * Math.max(0, ...widths));
}
