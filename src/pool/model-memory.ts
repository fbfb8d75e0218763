// How much memory a model takes: its weights, the KV blocks it starts with, and how many it may ever have.

import { type BackendName, BLOCK_TOKENS, type KvType } from '../compute/backend.ts';
import { bindableBlocks, recurrentStateBytes, sizesOf, weightBytes } from '../compute/memory.ts';
import { DEFAULT_IMAGE_BYTES } from '../engine/images/feature-store.ts';
import type { ModelSpec } from '../model/spec.ts';
import type { WeightSource } from '../weights/weight-source.ts';

/** By default there are never more blocks than for this many full contexts, */
const MOST_CONTEXTS = 32;
/** and the first ones are for a sequence of this many tokens. */
const FIRST_TOKENS = 2048;

/** The part of memory that weights leave which is for recurrent state, */
const MEMORY_SHARE = 0.25;
/** at least for one sequence that runs and one that may come, at most for this many. */
const LEAST_SLOTS = 3;
const MOST_SLOTS = 96;

/** The part of memory that weights leave which is for features of images, at most. */
const IMAGE_SHARE = 1 / 8;

export interface ModelMemory {
  readonly kvType: KvType;
  /** Weights, what layers without KV remember, features of images, and what steps on a GPU work in. */
  readonly weightBytes: number;
  /** Slots for that, where the model has such layers. */
  readonly stateSlots?: number;
  /** For features of images, where the model has a vision tower. */
  readonly imageBytes?: number;
  readonly blockBytes: number;
  /** KV blocks there can ever be; none of them takes memory before it is needed. */
  readonly blockCount: number;
  /** Blocks it may hold from the start; while it is loaded, others only take them where nothing else is left. */
  readonly firstBlocks: number;
  /** Whether it has all its blocks from the start, for good. */
  readonly fixed: boolean;
}

/** How much KV each model gets; without either number it grows and shrinks with the need. */
export interface KvChoice {
  readonly kvType: KvType;
  readonly blocks?: number;
  readonly bytes?: number;
  /** The most that KV of one layer may take: on a GPU it must lie in one piece. */
  readonly layerBytes?: number;
  /** For features of images. Default: 1 GiB, or less where there is little memory. */
  readonly imageBytes?: number;
}

interface PlanOptions {
  readonly backend?: BackendName | undefined;
  /** A smaller model that drafts for it, with as many blocks. */
  readonly draft?: { readonly spec: ModelSpec; readonly weights: WeightSource } | undefined;
}

/** Whether weights of this size would fit, were no other model loaded. */
export function weightsFit(sizeBytes: number, budgetBytes: number): boolean {
  return sizeBytes <= budgetBytes;
}

/** `budgetBytes` is what all models share. */
export function planMemory(
  spec: ModelSpec,
  weights: WeightSource,
  budgetBytes: number,
  kv: KvChoice,
  { backend, draft }: PlanOptions = {},
): ModelMemory {
  const sizes = sizesOf(backend);
  const layerBytes = kv.layerBytes ?? Number.POSITIVE_INFINITY;
  const models = [{ spec, weights }, ...(draft === undefined ? [] : [draft])];
  const bytes = models.reduce(
    (sum, one) =>
      sum +
      weightBytes(one.spec, one.weights, sizes.matrixBytes) +
      (sizes.scratchBytes?.(one.spec, kv.kvType, layerBytes) ?? 0),
    0,
  );
  const stateSlots = stateSlotCount(spec, budgetBytes - bytes);
  const imageBytes =
    spec.vision === undefined ? 0 : (kv.imageBytes ?? defaultImageBytes(budgetBytes - bytes));
  const known = {
    kvType: kv.kvType,
    weightBytes: bytes + stateSlots * recurrentStateBytes(spec) + imageBytes,
    ...(spec.vision === undefined ? {} : { imageBytes }),
    ...(stateSlots === 0 ? {} : { stateSlots }),
    blockBytes: models.reduce((sum, one) => sum + sizes.kvBlockBytes(one.spec, kv.kvType), 0),
  };
  const chosen = chosenBlocks(kv, known.blockBytes);
  if (chosen !== undefined) return { ...known, blockCount: chosen, firstBlocks: chosen, fixed: true };
  const contextBlocks = Math.ceil(spec.contextLength / BLOCK_TOKENS);
  const firstBlocks = Math.min(contextBlocks, FIRST_TOKENS / BLOCK_TOKENS);
  const affordable = Math.floor((budgetBytes - known.weightBytes) / known.blockBytes);
  const blockCount = Math.max(firstBlocks, Math.min(MOST_CONTEXTS * contextBlocks, affordable));
  const most = backend === 'webgpu' ? mostBindable(models, kv) : blockCount;
  return {
    ...known,
    blockCount: Math.min(blockCount, most),
    firstBlocks: Math.min(firstBlocks, most),
    fixed: false,
  };
}

/** What a GPU can bind of each of these models. */
function mostBindable(
  models: readonly { readonly spec: ModelSpec }[],
  { kvType, layerBytes = Number.POSITIVE_INFINITY }: KvChoice,
): number {
  return Math.min(...models.map(({ spec }) => bindableBlocks(spec, kvType, layerBytes)));
}

/** A share of what weights leave, for as many sequences as are likely to have a state. */
function stateSlotCount(spec: ModelSpec, leftBytes: number): number {
  const each = recurrentStateBytes(spec);
  if (each === 0) return 0;
  const affordable = Math.floor((MEMORY_SHARE * leftBytes) / each);
  return Math.max(LEAST_SLOTS, Math.min(MOST_SLOTS, affordable));
}

function defaultImageBytes(leftBytes: number): number {
  return Math.max(0, Math.min(DEFAULT_IMAGE_BYTES, Math.floor(IMAGE_SHARE * leftBytes)));
}

function chosenBlocks({ blocks, bytes }: KvChoice, bytesPerBlock: number): number | undefined {
  if (blocks !== undefined) {
    return wholeBlocks(blocks, `a KV cache needs a whole number of blocks, at least 1, not ${blocks}`);
  }
  if (bytes === undefined) return undefined;
  const refusal = `a KV cache of ${bytes} bytes holds no block of ${bytesPerBlock} bytes: give it more memory`;
  return wholeBlocks(Math.floor(bytes / bytesPerBlock), refusal);
}

function wholeBlocks(count: number, refusal: string): number {
  if (Number.isSafeInteger(count) && count >= 1) return count;
  throw new RangeError(refusal);
}
