import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { embeddedModelPath } from '../../test/support/embedded-model.ts';
import { type OpenedModel, openModelFiles } from '../weights/open-model.ts';
import { modelSampling } from './model-sampling.ts';

let directory: string;
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'chairlift-sampling-'));
});
afterAll(() => rmSync(directory, { recursive: true }));

const folder = () => modelSampling({ format: 'safetensors', directory } as OpenedModel);
const gguf = (entries: Record<string, unknown>) =>
  modelSampling({ format: 'gguf', metadata: new Map(Object.entries(entries)) } as unknown as OpenedModel);

describe('how a model is best sampled from', () => {
  it('is told by the file beside its weights', () => {
    expect(folder()).toEqual({});
    const config = { do_sample: true, temperature: 0.6, top_k: 20, top_p: 0.95, eos_token_id: [1] };
    writeFileSync(join(directory, 'generation_config.json'), JSON.stringify(config));
    expect(folder()).toEqual({ temperature: 0.6, topK: 20, topP: 0.95 });
  });

  it('is told by the keys of a GGUF, whose numbers have 32 bits', () => {
    const entries = {
      'general.sampling.temp': Math.fround(0.6),
      'general.sampling.top_k': 40,
      'general.sampling.penalty_repeat': Math.fround(1.05),
    };
    expect(gguf(entries)).toEqual({ temperature: 0.6, topK: 40, repetitionPenalty: 1.05 });
    const files = openModelFiles(embeddedModelPath);
    expect(modelSampling(files)).toEqual({});
    files.weights.close();
  });

  it('is not taken where it cannot be met', () => {
    const entries = { 'general.sampling.temp': -1, 'general.sampling.top_p': 'much' };
    expect(gguf({ ...entries, 'general.sampling.min_p': 0.1 })).toEqual({ minP: 0.1 });
  });
});
