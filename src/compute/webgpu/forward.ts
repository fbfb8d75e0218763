// The forward pass, described once for a model: from token ids to the states and logits of the wanted rows. layers/ has a
// file for each kind of layer.

import type { BodySpec, BranchSpec, LayerSpec, ModelSpec, PartSpec } from '../../model/spec.ts';
import type { KvType } from '../backend.ts';
import type { DeclaredBuffer, InputSource, LayerOutput } from './builder.ts';
import type { Declared } from './declared.ts';
import type { GpuInfo } from './gpu.ts';
import { capKernel, EXPANDED_VALUES } from './kernels/lora.ts';
import {
  addToStreams,
  correctAltUp,
  gatherAltUp,
  perLayerStream,
  predictAltUp,
  spreadAltUp,
} from './layers/altup.ts';
import { buildAttention } from './layers/attention.ts';
import { buildEmbedding } from './layers/embedding.ts';
import { buildGatedDeltaNet } from './layers/gated-delta-net.ts';
import { ImageRows } from './layers/image-rows.ts';
import { buildLaurel } from './layers/laurel.ts';
import { buildMamba2 } from './layers/mamba2.ts';
import { buildMla } from './layers/mla.ts';
import { buildMlp } from './layers/mlp.ts';
import { buildMoe } from './layers/moe.ts';
import { buildPerLayerInput, makePerLayerInputs } from './layers/per-layer-inputs.ts';
import { buildShortConv } from './layers/short-conv.ts';
import { LayerBuilder } from './linears.ts';
import { type GpuMatrix, loadMatrix } from './matrix.ts';
import { Tower } from './tower/tower.ts';
import { plannedViewBytes } from './tower/view-layout.ts';

type Build<Body> = (builder: LayerBuilder, body: Body, input: InputSource, output: LayerOutput) => void;

const layers: { readonly [Kind in BodySpec['kind']]: Build<Extract<BodySpec, { kind: Kind }>> } = {
  attention: buildAttention,
  mla: buildMla,
  mlp: buildMlp,
  moe: buildMoe,
  'per-layer-input': buildPerLayerInput,
  laurel: buildLaurel,
  'gated-delta-net': buildGatedDeltaNet,
  'short-conv': buildShortConv,
  mamba2: buildMamba2,
};

export interface ForwardDescription {
  readonly builder: LayerBuilder;
  /** Where the model sees. */
  readonly imageRows: ImageRows | undefined;
  readonly tower: Tower | undefined;
}

/** Needs neither weights nor a device: the builder loads what is described here. */
export function describeForward(
  spec: ModelSpec,
  kvType: KvType,
  limits: GpuInfo['limits'],
): ForwardDescription {
  const builder = new LayerBuilder(spec, kvType, limits);
  const imageRows = spec.vision && new ImageRows(builder, spec.vision);
  const rows = { inputs: spec.hiddenSize, slices: [spec.embedding] };
  const embedding = builder.declare('embedding', ({ loader }) => loadMatrix(loader, 'embedding', rows));
  buildEmbedding(builder, embedding);
  imageRows?.embed();
  if (spec.perLayerInputs !== undefined) makePerLayerInputs(builder, spec.perLayerInputs);
  if (spec.altUp !== undefined) spreadAltUp(builder, spec.altUp);
  for (const [index, layer] of spec.layers.entries()) {
    buildLayer(builder, layer);
    imageRows?.addDeepstack(index);
  }
  if (spec.altUp !== undefined) gatherAltUp(builder, spec.altUp);
  buildHead(builder, embedding);
  const tower = spec.vision && new Tower(builder, spec.vision);
  return { builder, imageRows, tower };
}

/** Bytes of scratch buffers, on a GPU that can bind `bindingBytes` at once. */
export function scratchBytes(spec: ModelSpec, kvType: KvType, bindingBytes: number): number {
  const most = Number.POSITIVE_INFINITY;
  const limits = { bindingBytes, bufferBytes: most, workgroupBytes: most, workgroupThreads: most };
  const viewBytes = spec.vision === undefined ? 0 : plannedViewBytes(spec.vision.tower.steps);
  return viewBytes + describeForward(spec, kvType, limits).builder.scratchPlan.bytes;
}

const branchOf = (builder: LayerBuilder): DeclaredBuffer =>
  builder.scratch('branch', builder.spec.hiddenSize);

function buildLayer(builder: LayerBuilder, { branches, altUp }: LayerSpec): void {
  if (altUp !== undefined) predictAltUp(builder, altUp);
  for (const branch of branches) buildBranch(builder, branch);
  if (altUp === undefined) return;
  correctAltUp(builder, altUp);
  const added = branchOf(builder);
  const stream = perLayerStream(builder, altUp);
  buildPart(builder, altUp.perLayer, { buffer: added, adds: false, scale: 1 }, stream);
  addToStreams(builder, added);
}

/** A single part adds to the residual stream itself; several are gathered first, for all read it as it was. */
function buildBranch(
  builder: LayerBuilder,
  { parts, output, scale = 1, streamScale, streamNorm }: BranchSpec,
): void {
  const { residual } = builder;
  const target = { buffer: residual, adds: true, scale };
  const [only, ...others] = parts;
  const isPlain = output === undefined && streamScale === undefined && streamNorm === undefined;
  if (only !== undefined && others.length === 0 && isPlain) {
    buildPart(builder, only, target);
    return;
  }
  const branch = branchOf(builder);
  for (const [index, part] of parts.entries()) {
    buildPart(builder, part, { buffer: branch, adds: index > 0, scale: 1 });
  }
  const [norm, sumNorm] = [builder.optionalNorm(output), builder.optionalNorm(streamNorm)];
  if (norm === undefined && streamScale === undefined && sumNorm !== undefined) {
    builder.join({ from: branch, norm: sumNorm, normsSum: true }, target);
    return;
  }
  builder.join({ from: branch, norm, sumScale: streamScale }, target);
  if (sumNorm === undefined) return;
  const whole = { adds: false, scale: 1 };
  builder.join({ from: residual }, { buffer: branch, ...whole });
  builder.join({ from: branch, norm: sumNorm }, { buffer: residual, ...whole });
}

function buildPart(
  builder: LayerBuilder,
  { input, body, output }: PartSpec,
  to: LayerOutput,
  from?: DeclaredBuffer,
): void {
  const build = layers[body.kind] as Build<BodySpec>;
  const source = builder.stream(builder.optionalNorm(input), from);
  if (output === undefined) {
    build(builder, body, source, to);
    return;
  }
  const part = builder.scratch('part', builder.spec.hiddenSize);
  build(builder, body, source, { buffer: part, adds: false, scale: 1 });
  builder.join({ from: part, norm: builder.norm(output) }, to);
}

function buildHead(builder: LayerBuilder, embedding: Declared<GpuMatrix>): void {
  const { linears, scratchPlan } = builder;
  const { head, embedding: table, finalNorm, vocabSize, logitScale, logitSoftcap } = builder.spec;
  const { step, logits, states } = scratchPlan;
  const source = builder.stream(builder.optionalNorm(finalNorm));
  linears.values(source, 'states', states);
  const isTied = head.weight.tensor === table.tensor && head.weight.firstRow === table.firstRow;
  const linear = isTied ? linears.tied(embedding, head) : linears.load('head', [head]);
  linears.input([linear], source, 'wanted');
  // What adapters add is capped with the rest.
  const capsLater = linear.additions !== undefined && logitSoftcap !== undefined;
  const output = { buffer: logits, stride: vocabSize, softcap: capsLater ? undefined : logitSoftcap };
  linears.multiply(linear, { ...output, scale: logitScale ?? 1 }, 'wanted');
  if (!capsLater) return;
  builder.add(
    'cap',
    () => capKernel(vocabSize),
    [step, logits, builder.filled('cap', () => Float32Array.of(logitSoftcap))],
    ({ wanted }) => [Math.ceil(vocabSize / EXPANDED_VALUES), wanted],
  );
}
