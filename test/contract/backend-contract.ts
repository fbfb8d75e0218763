// What every backend promises. A backend runs the whole suite with one call, in a test file of its own: it says how it is
// opened, and how large the models may be that it computes in a test's time.

import { describe, expect, it } from 'vitest';
import type { Backend, BackendOptions, KvType } from '../../src/compute/backend.ts';
import type { TensorType } from '../../src/weights/tensor-type.ts';
import { type TinyModel, tinyModel } from '../support/tiny-model.ts';
import { attentionContract } from './attention-contract.ts';
import { blockContract } from './block-contract.ts';
import { contentContract, stateContentContract } from './content-contract.ts';
import type { ModelGroup } from './contract-models.ts';
import { encoderContract } from './encoder-contract.ts';
import { type ImageOptions, imageContract } from './image-contract.ts';
import { logitsContract } from './logits-contract.ts';
import type { NamedModel } from './named-models.ts';
import { recurrentContract } from './recurrent-contract.ts';
import { logitsOf, whole } from './running.ts';
import { samplingContract } from './sampling-contract.ts';
import { stateContract } from './state-contract.ts';

export interface OpenOptions extends Partial<BackendOptions> {
  readonly kvType?: KvType;
  readonly threads?: number;
}

export type OpenBackend = (model: TinyModel, options?: OpenOptions) => Promise<Backend>;

export interface ContractModels {
  /** Random models, where a backend is fast enough to compute many. */
  readonly decoders: readonly ModelGroup[];
  readonly encoders: readonly ModelGroup[];
  /** All of them where it is absent. */
  readonly named?: readonly NamedModel[];
  readonly tensorTypes: readonly TensorType[];
  readonly kvTypes: readonly KvType[];
  /** Tokens of the sequence that is compared; 70 reach into a second segment of attention. */
  readonly tokens: number;
  /** Sequences in the same batch, of random lengths up to `otherTokens`. */
  readonly others: number;
  readonly otherTokens: number;
  /** Tokens of texts that encoders compute together; windows are 7 and 40. */
  readonly texts: readonly number[];
  /** Where the backend sees. */
  readonly images?: ImageOptions;
  /** Options that change no bit, such as numbers of threads. */
  readonly settings: readonly OpenOptions[];
}

export function backendContract(open: OpenBackend, models: ContractModels): void {
  describe('logits', () => logitsContract(open, models));
  describe('attention', () => attentionContract(open));
  describe.each(models.kvTypes)('KV blocks of type %s', (kvType) => blockContract(open, kvType));
  describe.each(models.kvTypes)('content of KV blocks of type %s', (kvType) => contentContract(open, kvType));
  describe('content of recurrent states', () => stateContentContract(open));
  describe('final states', () => stateContract(open));
  describe('encoders', () => encoderContract(open, models));
  describe('recurrent state', () => recurrentContract(open, models.tokens));
  describe('sampling', () => samplingContract(open));
  const { images, settings } = models;
  if (images) describe('images', () => imageContract(open, { settings, ...images }));

  it('reports loading from start to end, and refuses to run once closed', async () => {
    const shares: number[] = [];
    const onProgress = (share: number) => shares.push(share);
    const backend = await open(tinyModel(), { blockCount: 1, onProgress });
    expect(shares).toEqual([...shares].sort((a, b) => a - b));
    expect(shares.at(-1)).toBe(1);
    backend.close();
    await expect(logitsOf(backend, whole([1], [0]))).rejects.toThrow('closed');
  });
}
