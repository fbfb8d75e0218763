// MLA. Maps that each head has for itself are computed as those of experts, of which every row has chosen all.

import type { LinearSpec, MlaSpec } from '../../../model/spec.ts';
import { type DeclaredBuffer, type InputSource, type LayerOutput, valuesOf } from '../builder.ts';
import { groupHeadsKernel, headGroups } from '../kernels/moe-routing.ts';
import { storeMlaKernel } from '../kernels/store-mla.ts';
import type { LayerBuilder } from '../linears.ts';
import { Operation } from '../operation.ts';
import type { StepCounts } from '../plan-step.ts';
import { attend } from './attention.ts';

export function buildMla(
  builder: LayerBuilder,
  body: MlaSpec,
  input: InputSource,
  output: LayerOutput,
): void {
  const { headCount, qkNopeHeadDim, kvLoraRank, qkRopeHeadDim, vHeadDim } = body;
  const { linears, spec } = builder;
  const rows = project(builder, body, input);
  groupHeads(builder, headCount);
  const size = kvLoraRank + qkRopeHeadDim;
  const queries = builder.scratch('queries', headCount * size);
  const contents = { size: qkNopeHeadDim, stride: qkNopeHeadDim, from: rows.contents };
  mapHeads(builder, body.keyUp, headCount, contents, { buffer: queries, stride: size });
  store(builder, body, rows, queries);
  const attended = attend(builder, body, queries, headCount * size);
  const width = headCount * vHeadDim;
  const values = builder.scratch('channels', width);
  const latent = { size: kvLoraRank, stride: size, from: attended };
  mapHeads(builder, body.valueUp, headCount, latent, { buffer: values, stride: vHeadDim });
  const back = linears.load('output', [body.output]);
  linears.input([back], { making: { kind: 'plain' }, size: width, stride: width, buffers: [values] });
  linears.multiply(back, { ...output, stride: spec.hiddenSize });
}

interface ProjectedRows {
  /** Compressed queries (where there are any), latent, key, rotated queries. */
  readonly projections: DeclaredBuffer;
  readonly stride: number;
  /** The part of queries that is not rotated. */
  readonly contents: DeclaredBuffer;
}

function project(builder: LayerBuilder, body: MlaSpec, input: InputSource): ProjectedRows {
  const { queryInput, query, queryRope, kvDown, keyRope } = body;
  const { linears } = builder;
  const first = [queryInput?.down, kvDown, keyRope].filter((linear) => linear !== undefined);
  const stride = [...first, queryRope].reduce((sum, { weight }) => sum + weight.rows, 0);
  const projections = builder.scratch('projections', stride);
  const contents = builder.scratch('channels', query.weight.rows);
  const stored = linears.load('latent', first);
  const unrotated = linears.load('contents of queries', [query]);
  const rotated = linears.load('rotated queries', [queryRope]);
  linears.input(queryInput === undefined ? [stored, unrotated, rotated] : [stored], input);
  linears.multiply(stored, { buffer: projections, stride });
  if (queryInput !== undefined) {
    const norm = builder.norm(queryInput.norm);
    linears.input([unrotated, rotated], {
      making: { kind: 'norm', norm: norm.shape, epsilon: builder.spec.normEpsilon },
      size: query.columns,
      stride,
      buffers: [projections, ...norm.buffers],
    });
  }
  linears.multiply(unrotated, { buffer: contents, stride: query.weight.rows });
  linears.multiply(rotated, { buffer: projections, stride, offset: stride - queryRope.weight.rows });
  return { projections, stride, contents };
}

function groupHeads(builder: LayerBuilder, heads: number): void {
  const { linears, scratchPlan } = builder;
  const buffers = [scratchPlan.step, linears.expertTiles(heads)];
  const grid = ({ rows }: StepCounts) => [headGroups(heads, rows), 1] as const;
  builder.addAll(async ({ rows: mostRows }) => {
    const tiles = linears.expertTileRows(heads, heads);
    const variants = tiles.rows.map((rows) => ({
      text: groupHeadsKernel({ experts: heads, rows, mostChoices: mostRows * heads }),
      grid,
    }));
    return [new Operation('rows of heads', variants, valuesOf(buffers), tiles.choose)];
  });
}

interface HeadRows {
  readonly size: number;
  readonly stride: number;
  readonly from: DeclaredBuffer;
}

/** The head's own rows of a map, of its own values. */
function mapHeads(
  { linears }: LayerBuilder,
  linear: LinearSpec,
  heads: number,
  { size, stride, from }: HeadRows,
  output: { readonly buffer: DeclaredBuffer; readonly stride: number },
): void {
  const maps = linears.loadExperts(
    'maps of heads',
    Array.from({ length: heads }, (_, head) => [rowsOfHead(linear, head, heads)]),
  );
  linears.input([maps], { making: { kind: 'plain' }, size, stride, buffers: [from] }, { choices: heads });
  linears.multiplyExperts(maps, output, { experts: heads, choices: heads, sharesInput: false });
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

function store(
  builder: LayerBuilder,
  body: MlaSpec,
  { projections, stride }: ProjectedRows,
  queries: DeclaredBuffer,
): void {
  const { headCount, kvLoraRank, qkRopeHeadDim, queryInput } = body;
  const norm = builder.norm(body.kvNorm);
  const { layout } = builder.shapes.of(body);
  const latentAt = queryInput?.down.weight.rows ?? 0;
  const text = () =>
    storeMlaKernel({
      headCount,
      rank: kvLoraRank,
      qkRopeHeadDim,
      stride,
      latentAt,
      keyAt: latentAt + kvLoraRank,
      queriesAt: latentAt + kvLoraRank + qkRopeHeadDim,
      norm: norm.shape,
      epsilon: builder.spec.normEpsilon,
      layout,
    });
  const kept = [builder.kv[body.cache], builder.ropeTables[body.rope]] as DeclaredBuffer[];
  const buffers = [builder.scratchPlan.step, projections, queries, ...kept, ...norm.buffers];
  builder.add('store latent', text, buffers, ({ rows }) => [headCount + 1, rows]);
}
