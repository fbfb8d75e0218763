// The forward pass as a list of operations, made once for a model: from token ids to the states and logits of the wanted
// rows. What a body does, bodies/ says.

import type {
  BodySpec,
  BranchSpec,
  LayerSpec,
  LinearSpec,
  ModelSpec,
  PartSpec,
  RecurrentSpec,
} from '../../model/spec.ts';
import { loadAdditions, loadEmbeddingAdditions } from './adapters.ts';
import { type BodyOutput, Builder, type GpuNorm, type InputSource } from './builder.ts';
import { embed } from './embed.ts';
import type { GpuInfo } from './gpu.ts';
import { capKernel, EXPANDED_VALUES } from './kernels/adapters.ts';
import {
  correctAltUp,
  gatherAltUp,
  predictAltUp,
  seenStream,
  spreadAltUp,
  tellAltUp,
} from './layers/altup.ts';
import { type AttentionStores, buildAttention } from './layers/attention.ts';
import { buildGatedDeltaNet } from './layers/gated-delta-net.ts';
import { buildLaurel } from './layers/laurel.ts';
import { buildMamba2 } from './layers/mamba2.ts';
import { buildMla } from './layers/mla.ts';
import { buildMlp } from './layers/mlp.ts';
import { buildMoe } from './layers/moe.ts';
import { buildPerLayerInput, makePerLayerInputs } from './layers/per-layer-inputs.ts';
import { buildShortConv } from './layers/short-conv.ts';
import { type Linear, Linears } from './linears.ts';
import { type GpuMatrix, loadMatrix, type MatrixLoader } from './matrix.ts';
import type { Operation } from './operation.ts';
import type { ReplaceableBuffer } from './replaceable-buffer.ts';
import { ropeTurns } from './rope-turns.ts';
import type { Scratch } from './scratch.ts';

/** What steps leave for those after them: a buffer for each cache of the model, and for each of its recurrentStates. */
interface Stores {
  readonly kv: readonly ReplaceableBuffer[];
  readonly recurrentStates: readonly GPUBuffer[];
}

export async function buildForward(
  spec: ModelSpec,
  loader: MatrixLoader,
  scratch: Scratch,
  { kv, recurrentStates }: Stores,
  limits: GpuInfo['limits'],
): Promise<Operation[]> {
  const builder = new Builder(spec, loader, scratch, limits);
  const turns: GPUBuffer[] = [];
  for (const rope of spec.ropes) {
    turns.push(await loader.memory.filled('turns', ropeTurns(rope, spec.contextLength)));
  }
  await new ForwardBuilder(builder, { kv, turns }, recurrentStates).build();
  return builder.operations;
}

class ForwardBuilder {
  readonly #builder: Builder;
  readonly #linears: Linears;
  readonly #stores: AttentionStores;
  readonly #recurrentStates: readonly GPUBuffer[];

  constructor(builder: Builder, stores: AttentionStores, recurrentStates: readonly GPUBuffer[]) {
    this.#builder = builder;
    this.#linears = new Linears(builder);
    this.#stores = stores;
    this.#recurrentStates = recurrentStates;
  }

  async build(): Promise<void> {
    const { spec, loader } = this.#builder;
    const rows = { inputs: spec.hiddenSize, slices: [spec.embedding] };
    const embedding = await loadMatrix(loader, 'embedding', rows);
    await this.#embed(embedding);
    if (spec.perLayerInputs !== undefined) {
      await makePerLayerInputs(this.#builder, this.#linears, spec.perLayerInputs);
    }
    if (spec.altUp !== undefined) await spreadAltUp(this.#builder, this.#linears, spec.altUp);
    for (const layer of spec.layers) await this.#layer(layer);
    if (spec.altUp !== undefined) await gatherAltUp(this.#builder, this.#linears, spec.altUp);
    await this.#head(embedding, await this.#builder.optionalNorm(spec.finalNorm));
  }

  /** What is added to embeddings is added where they are made: those with a norm come to the stream behind it. */
  async #embed(embedding: GpuMatrix): Promise<void> {
    const { spec, scratch } = this.#builder;
    const { embeddingScale: scale, embeddingNorm, hiddenSize, positions, textKinds } = spec;
    const into = embeddingNorm === undefined ? scratch.residual : scratch.branch;
    embed(this.#builder, embedding, into, { scale });
    const additions = await loadEmbeddingAdditions(this.#builder.loader, spec);
    if (additions !== undefined) this.#linears.addToEmbeddings(additions, into, spec.vocabSize);
    for (const [by, table] of [
      ['first', textKinds],
      ['position', positions],
    ] as const) {
      if (table === undefined) continue;
      const rows = { inputs: hiddenSize, slices: [table] };
      const added = await loadMatrix(this.#builder.loader, 'added to embeddings', rows);
      embed(this.#builder, added, into, { scale: 1, by, adds: true });
    }
    if (embeddingNorm === undefined) return;
    const norm = await this.#builder.norm(embeddingNorm);
    this.#builder.join({ from: into, norm }, { buffer: scratch.residual, adds: false, scale: 1 });
  }

  async #layer({ branches, altUp }: LayerSpec): Promise<void> {
    if (altUp !== undefined) await predictAltUp(this.#builder, this.#linears, altUp);
    for (const branch of branches) await this.#branch(branch);
    if (altUp === undefined) return;
    await correctAltUp(this.#builder, this.#linears, altUp);
    const { branch: told } = this.#builder.scratch;
    const seen = await seenStream(this.#builder, altUp);
    await this.#part(altUp.perLayer, { buffer: told, adds: false, scale: 1 }, seen);
    tellAltUp(this.#builder, told);
  }

  /** One part without more adds to the residual stream itself; others are gathered first, for all read it as it was. */
  async #branch({ parts, output, scale = 1, streamScale, streamNorm }: BranchSpec): Promise<void> {
    const { residual, branch } = this.#builder.scratch;
    const stream = { buffer: residual, adds: true, scale };
    const [only, ...others] = parts;
    const isPlain = output === undefined && streamScale === undefined && streamNorm === undefined;
    if (only !== undefined && others.length === 0 && isPlain) {
      await this.#part(only, stream);
      return;
    }
    for (const [index, part] of parts.entries()) {
      await this.#part(part, { buffer: branch, adds: index > 0, scale: 1 });
    }
    const [norm, sumNorm] = [
      await this.#builder.optionalNorm(output),
      await this.#builder.optionalNorm(streamNorm),
    ];
    if (norm === undefined && streamScale === undefined && sumNorm !== undefined) {
      this.#builder.join({ from: branch, norm: sumNorm, normsSum: true }, stream);
      return;
    }
    this.#builder.join({ from: branch, norm, sumScale: streamScale }, stream);
    if (sumNorm === undefined) return;
    const whole = { adds: false, scale: 1 };
    this.#builder.join({ from: residual }, { buffer: branch, ...whole });
    this.#builder.join({ from: branch, norm: sumNorm }, { buffer: residual, ...whole });
  }

  async #part({ input, body, output }: PartSpec, to: BodyOutput, stream?: GPUBuffer): Promise<void> {
    const source = this.#builder.stream(await this.#builder.optionalNorm(input), stream);
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
      case 'mla':
        return buildMla(this.#builder, this.#linears, this.#stores, body, input, output);
      case 'mlp':
        return buildMlp(this.#builder, this.#linears, body, input, output);
      case 'moe':
        return buildMoe(this.#builder, this.#linears, body, input, output);
      case 'per-layer-input':
        return buildPerLayerInput(this.#builder, this.#linears, body, input, output);
      case 'laurel':
        return buildLaurel(this.#builder, this.#linears, body, input, output);
      case 'gated-delta-net':
        return buildGatedDeltaNet(this.#builder, this.#linears, this.#state(body), body, input, output);
      case 'short-conv':
        return buildShortConv(this.#builder, this.#linears, this.#state(body), body, input, output);
      case 'mamba2':
        return buildMamba2(this.#builder, this.#linears, this.#state(body), body, input, output);
    }
  }

  #state({ state }: RecurrentSpec): GPUBuffer {
    return this.#recurrentStates[state] as GPUBuffer;
  }

  async #head(embedding: GpuMatrix, finalNorm: GpuNorm | undefined): Promise<void> {
    const { head, embedding: table, vocabSize, logitScale, logitSoftcap } = this.#builder.spec;
    const { logits, states } = this.#builder.scratch;
    const source = this.#builder.stream(finalNorm);
    this.#linears.makeInput(source, 'states', { values: states });
    const isTied = head.weight.tensor === table.tensor && head.weight.firstRow === table.firstRow;
    const linear = isTied ? await this.#tied(embedding, head) : await this.#linears.load('head', [head]);
    this.#linears.input([linear], source, 'wanted');
    // What adapters add is capped with the rest.
    const capsLater = linear.additions !== undefined && logitSoftcap !== undefined;
    const output = { buffer: logits, stride: vocabSize, softcap: capsLater ? undefined : logitSoftcap };
    await this.#linears.multiply(linear, { ...output, scale: logitScale ?? 1 }, 'wanted');
    if (!capsLater) return;
    const { step } = this.#builder.scratch;
    this.#builder.add('cap', capKernel(vocabSize, logitSoftcap), [step, logits], ({ wanted }) => [
      Math.ceil(vocabSize / EXPANDED_VALUES),
      wanted,
    ]);
  }

  async #tied(matrix: GpuMatrix, head: LinearSpec): Promise<Linear> {
    const additions = await loadAdditions(this.#builder.loader, [[head]]);
    return {
      matrices: [{ matrix, offset: 0, bias: await this.#linears.biases(matrix, [head]) }],
      additions: additions && { ...additions, offset: 0 },
    };
  }
}
