// Attention between the cells of a view: all of them, or those of one window.

import type { GridAttentionSpec, GridRopeSpec } from '../../../model/vision/vision-spec.ts';
import { applyLinear } from '../linear.ts';
import { normalize } from '../norm.ts';
import { addScaled, dot, softmax } from '../vector.ts';
import type { Loaded } from '../weights.ts';
import { type Cells, firstCell, tokenCount } from './cells.ts';

type Attention = Loaded<GridAttentionSpec>;
type Norm = NonNullable<Attention['queryNorm']>;

export function runGridAttention(attention: Attention, cells: Cells, epsilon: number): Float32Array {
  const { values } = cells;
  const place = (heads: Float32Array, norm: Norm | undefined): Float32Array => {
    normalizeHeads(attention, heads, norm, epsilon);
    if (attention.rope !== undefined) rotate(attention, attention.rope, heads, cells);
    return heads;
  };
  const queries = place(applyLinear(attention.query, values), attention.queryNorm);
  const keys = place(applyLinear(attention.key, values), attention.keyNorm);
  const held = normalizeHeads(attention, applyLinear(attention.value, values), attention.valueNorm, epsilon);
  return applyLinear(attention.output, attend(attention, cells, { queries, keys, values: held }));
}

function normalizeHeads(
  { headCount, headSize }: Attention,
  heads: Float32Array,
  norm: Norm | undefined,
  epsilon: number,
): Float32Array {
  if (norm === undefined) return heads;
  const isOverAll = norm.weight !== undefined && norm.weight.length === headCount * headSize;
  return normalize(heads, isOverAll ? headCount * headSize : headSize, norm, epsilon);
}

function rotate(
  { headCount, headSize }: Attention,
  { origin, pairs }: Loaded<GridRopeSpec>,
  heads: Float32Array,
  cells: Cells,
): void {
  const first = firstCell(cells);
  for (let cell = 0; cell < cells.rows * cells.columns; cell++) {
    const row = Math.floor(cell / cells.columns) + origin;
    const column = (cell % cells.columns) + origin;
    for (const { axis, frequency, first: low, second: high } of pairs) {
      const angle = (axis === 'row' ? row : column) * frequency;
      const [cosine, sine] = [Math.cos(angle), Math.sin(angle)];
      for (let head = 0; head < headCount; head++) {
        const at = ((cell + first) * headCount + head) * headSize;
        const one = heads[at + low] as number;
        const other = heads[at + high] as number;
        heads[at + low] = one * cosine - other * sine;
        heads[at + high] = other * cosine + one * sine;
      }
    }
  }
}

interface Heads {
  readonly queries: Float32Array;
  readonly keys: Float32Array;
  readonly values: Float32Array;
}

function attend(attention: Attention, cells: Cells, { queries, keys, values }: Heads): Float32Array {
  const { headCount, headSize, scale } = attention;
  const width = headCount * headSize;
  const output = new Float32Array(queries.length);
  const gathered = new Float64Array(headSize);
  for (const members of groupsOf(attention, cells)) {
    const scores = new Float64Array(members.length);
    for (const query of members) {
      for (let at = query * width; at < (query + 1) * width; at += headSize) {
        const head = at - query * width;
        for (const [index, key] of members.entries()) {
          scores[index] = dot(queries, at, keys, key * width + head, headSize) * scale;
        }
        softmax(scores);
        gathered.fill(0);
        for (const [index, key] of members.entries()) {
          addScaled(gathered, values, key * width + head, scores[index] as number);
        }
        output.set(gathered, at);
      }
    }
  }
  return output;
}

/** Tokens that see each other. */
function groupsOf({ window }: Attention, cells: Cells): readonly (readonly number[])[] {
  if (window === undefined) return [Array.from({ length: tokenCount(cells) }, (_, token) => token)];
  const across = Math.ceil(cells.columns / window);
  const groups = Array.from({ length: across * Math.ceil(cells.rows / window) }, (): number[] => []);
  for (let cell = 0; cell < cells.rows * cells.columns; cell++) {
    const row = Math.floor(Math.floor(cell / cells.columns) / window);
    const column = Math.floor((cell % cells.columns) / window);
    groups[row * across + column]?.push(cell + firstCell(cells));
  }
  return groups;
}
