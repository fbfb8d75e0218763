// The operations of MLA. Maps that each head has for itself are those of experts, of which every
// row has chosen all.

import type { LinearSpec, MlaSpec } from '../../../model/spec.ts';
import type { BodyOutput, Builder, InputSource } from '../builder.ts';
import { groupHeadsKernel, headGroups } from '../kernels/group-choices.ts';
import { storeMlaKernel } from '../kernels/store-mla.ts';
import { type ExpertRows, type Linears, shifted } from '../linears.ts';
import { Operation } from '../operation.ts';
import type { StepCounts } from '../plan-step.ts';
import type { Bindable } from '../replaceable-buffer.ts';
import { latentValues } from '../widths.ts';
import { type AttentionStores, attend, shapeOf } from './attention.ts';

export async function buildMla(
  builder: Builder,
  linears: Linears,
  stores: AttentionStores,
  body: MlaSpec,
  input: InputSource,
  output: BodyOutput,
): Promise<void> {
  const { headCount, qkNopeHeadDim, kvLoraRank, qkRopeHeadDim, vHeadDim } = body;
  const { scratch, spec } = builder;
  await makeRows(builder, linears, body, input);
  groupHeads(builder, linears, headCount);
  const size = kvLoraRank + qkRopeHeadDim;
  const contents = { size: qkNopeHeadDim, stride: qkNopeHeadDim, from: scratch.mixed };
  await applyByHead(linears, body.keyUp, headCount, contents, { buffer: scratch.queries, stride: size });
  await store(builder, stores, body);
  await attend(builder, stores, body);
  const gathered = { size: kvLoraRank, stride: size, from: scratch.attended };
  await applyByHead(linears, body.valueUp, headCount, gathered, {
    buffer: scratch.mixed,
    stride: vHeadDim,
  });
  const back = await linears.load('output', [body.output]);
  const width = headCount * vHeadDim;
  const making = { kind: 'plain' } as const;
  linears.input([back], { making, size: width, stride: width, buffers: [scratch.mixed] });
  await linears.multiply(back, { ...output, stride: spec.hiddenSize });
}

/** Contents of queries by themselves; all else side by side, the rotated part of queries last. */
async function makeRows(
  builder: Builder,
  linears: Linears,
  body: MlaSpec,
  input: InputSource,
): Promise<void> {
  const { queryInput, query, queryRope, kvDown, keyRope } = body;
  const { heads, mixed } = builder.scratch;
  const stride = latentValues(body);
  const first = [queryInput?.down, kvDown, keyRope].filter((linear) => linear !== undefined);
  const stored = await linears.load('latent', first);
  const contents = await linears.load('contents of queries', [query]);
  const rotated = shifted(await linears.load('rotated queries', [queryRope]), stride - queryRope.weight.rows);
  linears.input(queryInput === undefined ? [stored, contents, rotated] : [stored], input);
  await linears.multiply(stored, { buffer: heads, stride });
  if (queryInput !== undefined) {
    const norm = await builder.norm(queryInput.norm);
    linears.input([contents, rotated], {
      making: { kind: 'norm', norm: norm.shape, epsilon: builder.spec.normEpsilon },
      size: query.columns,
      stride,
      buffers: [heads, ...norm.buffers],
    });
  }
  await linears.multiply(contents, { buffer: mixed, stride: query.weight.rows });
  await linears.multiply(rotated, { buffer: heads, stride });
}

const rowsOf = (heads: number): ExpertRows => ({ experts: heads, choices: heads, sharesInput: false });

/** Which rows each head has: all of them. */
function groupHeads({ scratch, operations }: Builder, linears: Linears, heads: number): void {
  const tiles = linears.expertTileRows(heads, heads);
  const mostChoices = scratch.rows * heads;
  const grid = ({ rows }: StepCounts) => [headGroups(heads, rows), 1] as const;
  const variants = tiles.rows.map((rows) => ({
    text: groupHeadsKernel({ experts: heads, rows, mostChoices }),
    grid,
  }));
  operations.push(new Operation('rows of heads', variants, [scratch.step, scratch.groups], tiles.choose));
}

interface HeadRows {
  readonly size: number;
  readonly stride: number;
  readonly from: GPUBuffer;
}

/** The head's own rows of a map, of its own values. */
async function applyByHead(
  linears: Linears,
  linear: LinearSpec,
  heads: number,
  { size, stride, from }: HeadRows,
  output: { readonly buffer: GPUBuffer; readonly stride: number },
): Promise<void> {
  const maps = await linears.loadExperts(
    'maps of heads',
    Array.from({ length: heads }, (_, head) => [rowsOfHead(linear, head, heads)]),
  );
  linears.input([maps], { making: { kind: 'plain' }, size, stride, buffers: [from] }, { choices: heads });
  await linears.multiplyExperts(maps, output, rowsOf(heads));
}

/** Where maps of heads lie among other rows, each is one run. */
function rowsOfHead({ leaf, weight, columns }: LinearSpec, head: number, heads: number): LinearSpec {
  const rows = weight.rows / heads;
  if (weight.runs !== undefined && weight.runs.rows !== rows) {
    throw new Error('rows of a head lie together');
  }
  const firstRow = weight.firstRow + head * (weight.runs?.every ?? rows);
  return { leaf, weight: { ...weight, firstRow, rows }, columns };
}

async function store(builder: Builder, stores: AttentionStores, body: MlaSpec): Promise<void> {
  const { headCount, kvLoraRank, qkRopeHeadDim, queryInput } = body;
  const { scratch, spec } = builder;
  const norm = await builder.norm(body.kvNorm);
  const latentAt = queryInput?.down.weight.rows ?? 0;
  const text = storeMlaKernel({
    headCount,
    rank: kvLoraRank,
    qkRopeHeadDim,
    stride: latentValues(body),
    latentAt,
    keyAt: latentAt + kvLoraRank,
    queriesAt: latentAt + kvLoraRank + qkRopeHeadDim,
    norm: norm.shape,
    epsilon: spec.normEpsilon,
    layout: shapeOf(builder, body).layout,
  });
  const kept = [stores.kv[body.cache], stores.turns[body.rope]] as Bindable[];
  const buffers = [scratch.step, scratch.heads, scratch.queries, ...kept, ...norm.buffers];
  builder.add('store latent', text, buffers, ({ rows }) => [headCount + 1, rows]);
}
