// Token embeddings, and rows of other tables that each token of a step has.

import { addToEmbeddings } from '../adapters.ts';
import { type DeclaredBuffer, valuesOf } from '../builder.ts';
import type { Declared } from '../declared.ts';
import { type EmbedShape, embedKernel } from '../kernels/embedding.ts';
import type { LayerBuilder } from '../linears.ts';
import { panelBuffers } from '../linears.ts';
import { type GpuMatrix, loadMatrix } from '../matrix.ts';
import { Operation } from '../operation.ts';

/** What is added to embeddings is added where they are made: those with a norm come to the residual stream after it. */
export function buildEmbedding(builder: LayerBuilder, embedding: Declared<GpuMatrix>): void {
  const { residual, spec } = builder;
  const { embeddingScale: scale, embeddingNorm, hiddenSize, positions, textKinds } = spec;
  const into = embeddingNorm === undefined ? residual : builder.scratch('branch', hiddenSize);
  embed(builder, embedding, into, { scale });
  addToEmbeddings(builder, into);
  for (const [by, table] of [
    ['first', textKinds],
    ['position', positions],
  ] as const) {
    if (table === undefined) continue;
    const added = builder.declare('added to embeddings', ({ loader }) =>
      loadMatrix(loader, 'added to embeddings', { inputs: hiddenSize, slices: [table] }),
    );
    embed(builder, added, into, { scale: 1, by, adds: true });
  }
  if (embeddingNorm === undefined) return;
  const norm = builder.norm(embeddingNorm);
  builder.join({ from: into, norm }, { buffer: residual, adds: false, scale: 1 });
}

/** Rows of a table, one for each token. */
export function embed(
  builder: LayerBuilder,
  table: Declared<GpuMatrix>,
  into: DeclaredBuffer,
  how: Pick<EmbedShape, 'scale' | 'by' | 'known' | 'adds'>,
): void {
  builder.addAll(async () => {
    const { format, inputs: size, parts } = table.value;
    return parts.map((part) => {
      const { firstOutput: firstToken, outputs: tokens } = part;
      const text = embedKernel({ format, size, firstToken, tokens, ...how });
      const buffers = [...panelBuffers(part), ...valuesOf([into, builder.scratchPlan.step])];
      return new Operation('embed', [{ text, grid: ({ rows }) => [rows, 1] }], buffers);
    });
  });
}
