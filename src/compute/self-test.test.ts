import { describe, expect, it } from 'vitest';
import { tinyModel } from '../../test/support/tiny-model.ts';
import type { Backend, Batch } from './backend.ts';
import { createReferenceBackend } from './reference/backend.ts';
import { selfTest } from './self-test.ts';

const model = tinyModel({ layerCount: 1 });
const { vocabSize } = model.spec;
const open = (blockCount = 32) => createReferenceBackend(model.spec, model.weights, { blockCount });

/** Whose driver changes the last bit of a logit in some steps. */
async function withFault(isWrong: (batch: Batch) => boolean): Promise<Backend> {
  const backend = await open();
  const step: Backend['step'] = async (batch, rows) => {
    const result = await backend.step(batch, rows);
    if (!isWrong(batch)) return result;
    const bits = new Uint32Array(result.logits.buffer, result.logits.byteOffset, result.logits.length);
    bits[vocabSize - 1] = (bits[vocabSize - 1] as number) ^ 1;
    return result;
  };
  return { ...backend, blockCount: backend.blockCount, step };
}

describe('a backend’s self-test', () => {
  it('finds nothing where a sequence gets the same bits in every way', async () => {
    expect(await selfTest(await open(), vocabSize)).toBeUndefined();
  });

  it('finds a single bit that others in the batch change', async () => {
    const backend = await withFault(({ starts }) => starts.length > 1);
    expect(await selfTest(backend, vocabSize)).toBe('an answer is not always the same in any batch');
  });

  it('finds a single bit that cutting a prompt changes', async () => {
    const backend = await withFault(({ starts }) => (starts[0] as number) > 0);
    expect(await selfTest(backend, vocabSize)).toContain('however its prompt is cut');
  });

  it('says nothing where there are too few blocks for two sequences', async () => {
    expect(await selfTest(await open(3), vocabSize)).toBeUndefined();
  });
});
