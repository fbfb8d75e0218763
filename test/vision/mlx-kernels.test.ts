// MLX stores kernels of convolutions with their channels last: the same features must come of them.

import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { createReferenceBackend } from '../../src/compute/reference/backend.ts';
import { openLocalModel } from '../../src/pool/local-model.ts';
import { joinSafetensors } from '../support/safetensors-writer.ts';
import { hasTestdata, testdata } from '../support/testdata.ts';
import { distance, goldenCases, readCase, seen } from './golden-case.ts';

describe.skipIf(!hasTestdata)('kernels with their channels last', () => {
  let directory: string;
  afterEach(() => rmSync(directory, { recursive: true }));

  it.each([
    ['qwen3_vl', 'model.visual.patch_embed.proj.weight'],
    ['llava', 'vision_tower.vision_model.embeddings.patch_embedding.weight'],
  ])('give the features of %s', async (family, kernel) => {
    directory = mkdtempSync(join(tmpdir(), 'chairlift-kernels-'));
    cpSync(testdata('vision', family), directory, { recursive: true });
    const path = join(directory, 'model.safetensors');
    rmSync(path);
    writeFileSync(
      path,
      withChannelsLast(readFileSync(testdata('vision', family, 'model.safetensors')), kernel),
    );
    const [golden] = goldenCases(family);
    const featuresOf = async (folder: string) => {
      const model = openLocalModel(folder, { images: true });
      const backend = await createReferenceBackend(model.spec, model.weights, { blockCount: 1 });
      model.close();
      const seeing = { model: { ...model, name: family }, backend };
      const images = await seen(seeing, await readCase(seeing, golden as NonNullable<typeof golden>));
      backend.close();
      return images?.embeddings ?? [];
    };
    const features = await featuresOf(testdata('vision', family));
    // Sums run in another order.
    expect(distance(await featuresOf(directory), features)).toBeLessThan(1e-4);
    expect(features.length).toBeGreaterThan(100);
  });
});

interface Entry {
  readonly shape: readonly number[];
  readonly data_offsets: readonly [number, number];
}

/** From [out, channel, …] to [out, …, channel], in 16 bits. */
function withChannelsLast(file: Buffer, name: string): Buffer {
  const end = 8 + Number(file.readBigUInt64LE(0));
  const header = JSON.parse(file.toString('utf8', 8, end)) as Record<string, Entry>;
  const { shape, data_offsets: offsets } = header[name] as Entry;
  const data = Buffer.from(file.subarray(end));
  const [outputs = 0, channels = 0, ...inner] = shape;
  const area = inner.reduce((product, side) => product * side, 1);
  const old = new Uint16Array(data.buffer.slice(data.byteOffset + offsets[0], data.byteOffset + offsets[1]));
  for (let output = 0; output < outputs; output++) {
    for (let channel = 0; channel < channels; channel++) {
      for (let pixel = 0; pixel < area; pixel++) {
        const value = old[(output * channels + channel) * area + pixel] as number;
        data.writeUInt16LE(value, offsets[0] + 2 * ((output * area + pixel) * channels + channel));
      }
    }
  }
  return joinSafetensors(
    { ...header, [name]: { ...header[name], shape: [outputs, ...inner, channels] } },
    data,
  );
}
