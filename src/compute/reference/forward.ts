// One forward pass over all rows of a batch, from token ids to final states and logits.

import type { LayerSpec, ModelSpec } from '../../model/spec.ts';
import type { Batch, StepResult } from '../backend.ts';
import { rowAdapters } from '../batch.ts';
import { batchRows } from './batch-rows.ts';
import { runBranches, runPart } from './branches.ts';
import { Features } from './features.ts';
import type { KvCache } from './kv-cache.ts';
import { correctAltUp, gatherAltUp, predictAltUp, type Streams, spreadAltUp } from './layers/altup.ts';
import { perLayerInputsOf } from './layers/per-layer-inputs.ts';
import { applyLinear, decodeRow, type Matrix } from './linear.ts';
import { feedMtp, runMtp, spreadLogits } from './mtp.ts';
import { normalize } from './norm.ts';
import { type RecurrentStates, sequenceStates } from './recurrent-states.ts';
import { rotationsAt } from './rope.ts';
import type { StepContext } from './step-context.ts';
import { addInto, scaleBy, softcap } from './vector.ts';
import type { Loaded, ModelWeights } from './weights.ts';

type Layer = Loaded<LayerSpec>;

export function forward(
  spec: ModelSpec,
  weights: ModelWeights,
  cache: KvCache,
  recurrentStates: RecurrentStates,
  batch: Batch,
): StepResult {
  const base = stepContext(spec, cache, recurrentStates, batch);
  const embedded = embed(spec, weights, batch, base.rows.positions);
  const context: StepContext = {
    ...base,
    sequences: sequenceStates(batch.rowStarts, batch.recurrentStates),
    perLayerInputs: perLayerInputsOf(weights.perLayerInputs, batch, embedded, spec.normEpsilon),
  };
  let streams = spreadAltUp(embedded, weights.altUp?.spread ?? []);
  const { mtp } = weights;
  const features = mtp?.features && new Features(mtp.features.after, batch.tokens.length, spec.hiddenSize);
  for (const [index, layer] of weights.layers.entries()) {
    features?.take(index, streams[0] as Float32Array);
    streams = runLayer(context, layer, streams);
    const added = batch.images?.deepstack[index];
    if (added !== undefined) putImages(spec, batch, streams[0] as Float32Array, added, addInto);
  }
  const stream = gatherAltUp(streams, weights.altUp?.gather ?? []);
  const statesOf = (wanted: Int32Array) => finalStates(spec, weights, stream, wanted);
  const result = {
    logits: logits(spec, weights, statesOf(batch.logitRows), batch.logitRows),
    states: statesOf(batch.stateRows),
  };
  if (mtp !== undefined) {
    const all = Int32Array.from({ length: batch.tokens.length }, (_, row) => row);
    const last = () => (mtp.beforeNorm ? stream.slice() : statesOf(all));
    const states = mtp.features && features ? applyLinear(mtp.features.projection, features.rows) : last();
    feedMtp(context, mtp, batch, embed(spec, mtpWeights(weights), batch, context.rows.positions), states);
  }
  return result;
}

/** What layers need that keep no recurrent state and take nothing for each layer. */
function stepContext(
  spec: ModelSpec,
  cache: KvCache,
  recurrentStates: RecurrentStates,
  batch: Batch,
): StepContext {
  const rows = batchRows(batch);
  return {
    spec,
    cache,
    rows,
    rotations: spec.ropes.map((rope) => rotationsAt(rope, rows.positions, batch.rotaryPositions)),
    recurrentStates,
    sequences: [],
    perLayerInputs: new Float32Array(0),
  };
}

/** Logits of the MTP head, one row a sequence. */
export function predict(
  spec: ModelSpec,
  weights: ModelWeights,
  cache: KvCache,
  recurrentStates: RecurrentStates,
  batch: Batch,
): Float32Array {
  const context = stepContext(spec, cache, recurrentStates, batch);
  const { mtp } = weights;
  if (mtp === undefined) throw new Error('the model has no MTP head');
  const states = runMtp(context, mtp, embed(spec, mtpWeights(weights), batch, context.rows.positions));
  const all = Int32Array.from(batch.starts, (_, row) => row);
  return spreadLogits(mtp, spec.vocabSize, logits(spec, mtpWeights(weights), states, all));
}

/** With the embedding and the output of the MTP head, where it has its own. */
function mtpWeights(weights: ModelWeights): ModelWeights {
  const { embedding = weights.embedding, output = weights.head } = weights.mtp ?? {};
  return { ...weights, embedding, head: output };
}

function embed(
  { hiddenSize, embeddingScale, normEpsilon }: ModelSpec,
  { embedding, embeddingAdditions = [], textKinds, positions: places, embeddingNorm }: ModelWeights,
  batch: Batch,
  positions: Int32Array,
): Float32Array {
  const { tokens } = batch;
  const adapters = rowAdapters(batch);
  const hidden = rowsOf(embedding, tokens);
  for (const [row, adapter] of adapters.entries()) {
    const addition = embeddingAdditions.find((one) => one.adapter === adapter);
    if (addition === undefined) continue;
    const added = applyLinear(addition.up, rowsOf(addition.table, tokens.subarray(row, row + 1)));
    scaleBy(added, addition.scale);
    addInto(hidden.subarray(row * hiddenSize, (row + 1) * hiddenSize), added);
  }
  if (embeddingScale !== 1) scaleBy(hidden, embeddingScale);
  if (textKinds !== undefined) addInto(hidden, rowsOf(textKinds, new Int32Array(tokens.length)));
  if (places !== undefined) addInto(hidden, rowsOf(places, positions));
  if (embeddingNorm !== undefined) normalize(hidden, hiddenSize, embeddingNorm, normEpsilon);
  if (batch.images !== undefined) {
    putImages({ hiddenSize }, batch, hidden, batch.images.embeddings, (row, values) => row.set(values));
  }
  return hidden;
}

/** Changes the batch's rows of images by values of their own. */
function putImages(
  { hiddenSize }: Pick<ModelSpec, 'hiddenSize'>,
  { images }: Batch,
  stream: Float32Array,
  values: Float32Array,
  put: (row: Float32Array, values: Float32Array) => void,
): void {
  for (const [index, row] of (images?.rows ?? []).entries()) {
    const own = values.subarray(index * hiddenSize, (index + 1) * hiddenSize);
    put(stream.subarray(row * hiddenSize, (row + 1) * hiddenSize), own);
  }
}

function rowsOf(table: Matrix, which: Int32Array): Float32Array {
  const { columns } = table;
  const rows = new Float32Array(which.length * columns);
  for (const [at, row] of which.entries()) {
    decodeRow(table, row, rows.subarray(at * columns, (at + 1) * columns));
  }
  return rows;
}

/** Without AltUp the stream is changed in place. */
function runLayer(context: StepContext, layer: Layer, streams: Streams): Streams {
  if (layer.altUp === undefined) {
    runBranches(context, layer, streams[0] as Float32Array);
    return streams;
  }
  const { normEpsilon } = context.spec;
  const predictions = predictAltUp(layer.altUp, streams, normEpsilon);
  const first = (predictions[0] as Float32Array).slice();
  runBranches(context, layer, first);
  const [corrected, ...others] = correctAltUp(layer.altUp, predictions, first, normEpsilon);
  const active = corrected as Float32Array;
  const { perLayer, perLayerScale } = layer.altUp;
  const seen =
    perLayerScale === undefined
      ? active
      : active.map((value, at) => value * (perLayerScale[at % perLayerScale.length] as number));
  const output = runPart(context, perLayer, seen);
  for (const other of others) addInto(other, output);
  return [active, ...others];
}

function finalStates(
  { hiddenSize, normEpsilon }: ModelSpec,
  { finalNorm }: ModelWeights,
  stream: Float32Array,
  wanted: Int32Array,
): Float32Array {
  const states = new Float32Array(wanted.length * hiddenSize);
  for (const [index, row] of wanted.entries()) {
    states.set(stream.subarray(row * hiddenSize, (row + 1) * hiddenSize), index * hiddenSize);
  }
  return finalNorm === undefined ? states : normalize(states, hiddenSize, finalNorm, normEpsilon);
}

function logits(
  spec: ModelSpec,
  { head }: ModelWeights,
  states: Float32Array,
  wanted: Int32Array,
): Float32Array {
  const { logitScale = 1, logitSoftcap } = spec;
  const result = applyLinear(head, states, wanted).map((value) => value * logitScale);
  return logitSoftcap === undefined ? result : result.map((value) => softcap(value, logitSoftcap));
}
