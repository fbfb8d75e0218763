// The forward pass as a list of operations, made once for a model: from token ids to the states and logits of the wanted
// rows. What a body does, bodies/ says.

import type { BodySpec, BranchSpec, LinearSpec, ModelSpec, PartSpec } from '../../model/spec.ts';
import { type AttentionStores, buildAttention } from './bodies/attention.ts';
import { buildExperts } from './bodies/experts.ts';
import { buildFeedForward } from './bodies/feed-forward.ts';
import { type BodyOutput, Builder, type GpuNorm, type InputSource } from './builder.ts';
import type { GpuInfo } from './gpu.ts';
import { embedKernel } from './kernels/embed.ts';
import { type Linear, Linears, panelBuffers } from './linears.ts';
import { type GpuMatrix, loadMatrix, type MatrixLoader } from './matrix.ts';
import type { Operation } from './operation.ts';
import { ropeTurns } from './rope-turns.ts';
import type { Scratch } from './scratch.ts';

/** `kv` has a buffer for each cache of the model. */
export async function buildForward(
  spec: ModelSpec,
  loader: MatrixLoader,
  scratch: Scratch,
  kv: readonly GPUBuffer[],
  limits: GpuInfo['limits'],
): Promise<Operation[]> {
  const builder = new Builder(spec, loader, scratch, limits);
  const turns: GPUBuffer[] = [];
  for (const rope of spec.ropes) {
    turns.push(await loader.memory.filled('turns', ropeTurns(rope, spec.contextLength)));
  }
  await new ForwardBuilder(builder, { kv, turns }).build();
  return builder.operations;
}

class ForwardBuilder {
  readonly #builder: Builder;
  readonly #linears: Linears;
  readonly #stores: AttentionStores;

  constructor(builder: Builder, stores: AttentionStores) {
    this.#builder = builder;
    this.#linears = new Linears(builder);
    this.#stores = stores;
  }

  async build(): Promise<void> {
    const { spec, loader } = this.#builder;
    const rows = { inputs: spec.hiddenSize, slices: [spec.embedding] };
    const embedding = await loadMatrix(loader, 'embedding', rows);
    this.#embed(embedding);
    for (const { branches } of spec.layers) for (const branch of branches) await this.#branch(branch);
    await this.#head(embedding, await this.#builder.norm(spec.finalNorm));
  }

  #embed(matrix: GpuMatrix): void {
    const { hiddenSize, embeddingScale } = this.#builder.spec;
    const { step, residual } = this.#builder.scratch;
    for (const part of matrix.parts) {
      const text = embedKernel({
        format: matrix.format,
        size: hiddenSize,
        scale: embeddingScale,
        firstToken: part.firstOutput,
        tokens: part.outputs,
      });
      const buffers = [...panelBuffers(part), residual, step];
      this.#builder.add('embed', text, buffers, ({ rows }) => [rows, 1]);
    }
  }

  /** One part without more adds to the residual stream itself; others are gathered first, for all read it as it was. */
  async #branch({ parts, output, scale = 1 }: BranchSpec): Promise<void> {
    const { residual, branch } = this.#builder.scratch;
    const stream = { buffer: residual, adds: true, scale };
    const [only, ...others] = parts;
    if (only !== undefined && others.length === 0 && output === undefined) {
      await this.#part(only, stream);
      return;
    }
    for (const [index, part] of parts.entries()) {
      await this.#part(part, { buffer: branch, adds: index > 0, scale: 1 });
    }
    this.#builder.join({ from: branch, norm: await this.#builder.optionalNorm(output) }, stream);
  }

  async #part({ input, body, output }: PartSpec, to: BodyOutput): Promise<void> {
    const source = this.#builder.stream(await this.#builder.optionalNorm(input));
    if (output === undefined) {
      await this.#body(body, source, to);
      return;
    }
    const { part } = this.#builder.scratch;
    await this.#body(body, source, { buffer: part, adds: false, scale: 1 });
    this.#builder.join({ from: part, norm: await this.#builder.norm(output) }, to);
  }

  async #body(body: BodySpec, input: InputSource, output: BodyOutput): Promise<void> {
    switch (body.kind) {
      case 'attention':
        return buildAttention(this.#builder, this.#linears, this.#stores, body, input, output);
      case 'feed-forward':
        return buildFeedForward(this.#builder, this.#linears, body, input, output);
      case 'experts':
        return buildExperts(this.#builder, this.#linears, body, input, output);
    }
  }

  async #head(embedding: GpuMatrix, finalNorm: GpuNorm): Promise<void> {
    const { head, embedding: table, vocabSize, logitScale, logitSoftcap } = this.#builder.spec;
    const { logits, states } = this.#builder.scratch;
    const source = this.#builder.stream(finalNorm);
    this.#linears.makeInput(source, 'states', { values: states });
    const isTied = head.weight.tensor === table.tensor && head.weight.firstRow === table.firstRow;
    const linear = isTied ? await this.#tied(embedding, head) : await this.#linears.load('head', [head]);
    this.#linears.input([linear], source, 'wanted');
    const output = { buffer: logits, stride: vocabSize, softcap: logitSoftcap };
    await this.#linears.multiply(linear, { ...output, scale: logitScale ?? 1 }, 'wanted');
  }

  async #tied(matrix: GpuMatrix, head: LinearSpec): Promise<Linear> {
    return { matrices: [{ matrix, offset: 0, bias: await this.#linears.biases(matrix, [head]) }] };
  }
}
