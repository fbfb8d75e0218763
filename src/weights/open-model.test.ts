import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { writeGguf } from '../../test/support/gguf-writer.ts';
import { float32Bytes, writeSafetensors } from '../../test/support/safetensors-writer.ts';
import { hasTestdata, testdata } from '../../test/support/testdata.ts';
import { ModelFileError } from './model-file-error.ts';
import { openModelFiles } from './open-model.ts';
import { readFloats } from './weight-source.ts';

const root = mkdtempSync(join(tmpdir(), 'chairlift-open-'));
afterAll(() => rmSync(root, { recursive: true }));

const tensor = { name: 'w', dtype: 'F32', shape: [2], bytes: float32Bytes([1, 2]) };
const safetensors = writeSafetensors([tensor]);
const gguf = writeGguf({
  metadata: {},
  tensors: [{ name: 'w', type: 'F32', shape: [2], bytes: float32Bytes([3, 4]) }],
}).bytes;
const config = JSON.stringify({ model_type: 'llama' });
let folders = 0;

function folder(files: Readonly<Record<string, Uint8Array | string>>): string {
  const path = join(root, `model-${folders++}`);
  mkdirSync(path);
  for (const [name, bytes] of Object.entries(files)) writeFileSync(join(path, name), bytes);
  return path;
}

function openAndRead(path: string) {
  const { format, weights } = openModelFiles(path);
  const values = Array.from(readFloats(weights, 'w'));
  weights.close();
  return { format, values };
}

describe('openModelFiles', () => {
  it('opens a GGUF file, whatever its name, and a folder with one', () => {
    const path = folder({ 'model.gguf': gguf, blob: gguf.subarray(0) });
    expect(openAndRead(join(path, 'model.gguf'))).toEqual({ format: 'gguf', values: [3, 4] });
    expect(openAndRead(join(path, 'blob'))).toEqual({ format: 'gguf', values: [3, 4] });
    expect(openAndRead(path)).toEqual({ format: 'gguf', values: [3, 4] });
  });

  it('opens safetensors with the config beside them', () => {
    const path = folder({ 'config.json': config, 'model.safetensors': safetensors, 'other.gguf': gguf });
    expect(openAndRead(path)).toEqual({ format: 'safetensors', values: [1, 2] });
    const opened = openModelFiles(join(path, 'model.safetensors'));
    opened.weights.close();
    expect(opened).toMatchObject({ directory: path, config: { model_type: 'llama' } });
  });

  it('opens shards through their index', () => {
    const index = JSON.stringify({ weight_map: { w: 'model-00001-of-00001.safetensors' } });
    const path = folder({
      'config.json': config,
      'model.safetensors.index.json': index,
      'model-00001-of-00001.safetensors': safetensors,
    });
    expect(openAndRead(path)).toEqual({ format: 'safetensors', values: [1, 2] });
    expect(() => openModelFiles(join(path, 'model-00001-of-00001.safetensors'))).toThrow(
      /one shard of a model/,
    );
  });

  it.each<[string, Readonly<Record<string, Uint8Array | string>>, RegExp]>([
    ['an empty folder', {}, /holds no model\. Give a folder with config\.json/],
    ['several GGUF files', { 'a.gguf': gguf, 'b.gguf': gguf }, /several GGUF files: a\.gguf, b\.gguf/],
    [
      'shards without an index',
      { 'a.safetensors': '', 'b.safetensors': '' },
      /no model\.safetensors\.index\.json/,
    ],
    ['no config', { 'model.safetensors': safetensors }, /config\.json: path: does not exist/],
    [
      'a config that is no JSON',
      { 'model.safetensors': '', 'config.json': '{' },
      /config\.json: JSON: is not valid/,
    ],
    [
      'another quantizer’s weights',
      {
        'model.safetensors': safetensors,
        'config.json': JSON.stringify({ quantization_config: { quant_method: 'hqq', nbits: 4 } }),
      },
      /quantization_config\.quant_method: "hqq" is not supported/,
    ],
  ])('refuses %s', (_, files, message) => {
    const path = folder(files);
    expect(() => openModelFiles(path)).toThrow(ModelFileError);
    expect(() => openModelFiles(path)).toThrow(message);
  });

  it('refuses a path that does not exist, a cycle of links and a device', () => {
    expect(() => openModelFiles(join(root, 'absent'))).toThrow(/absent: path: does not exist/);
    const path = folder({});
    symlinkSync(join(path, 'loop.gguf'), join(path, 'loop.gguf'));
    expect(() => openModelFiles(join(path, 'loop.gguf'))).toThrow(/cannot be read \(ELOOP\)/);
    expect(() => openModelFiles('/dev/null')).toThrow(/is not a regular file/);
  });
});

describe.skipIf(!hasTestdata)('reference folders (skipped without shared test data)', () => {
  it('opens every kind', () => {
    const formats = [
      'tinystories-656k',
      'tinystories-656k-bf16-sharded',
      'tinystories-656k-mlx-4bit',
      'arch/qwen3',
    ].map((name) => {
      const { format, weights } = openModelFiles(testdata(name));
      for (const tensorName of weights.tensors.keys()) readFloats(weights, tensorName);
      weights.close();
      return format;
    });
    expect(formats).toEqual(['safetensors', 'safetensors', 'mlx', 'safetensors']);
  });
});
