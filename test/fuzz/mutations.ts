// Ways to damage a model file: blind ones on bytes, and lies in places that a header's reader must trust.

import type { HeaderField } from '../support/gguf-writer.ts';
import type { Random } from './random.ts';

/** Sizes around every limit a reader could have. */
export const lyingSizes: readonly bigint[] = [
  0n,
  1n,
  65_536n,
  2n ** 20n,
  2n ** 27n,
  2n ** 31n - 1n,
  2n ** 32n - 1n,
  2n ** 32n,
  2n ** 40n,
  2n ** 53n - 1n,
  2n ** 63n - 1n,
  2n ** 63n,
  2n ** 64n - 1n,
];

const lyingJson: readonly unknown[] = [
  null,
  true,
  '',
  'F32',
  'I64',
  'U32',
  'U8',
  'F8_E4M3',
  'fp8',
  'mxfp4',
  'gptq',
  'awq',
  'bitsandbytes',
  'compressed-tensors',
  'I32',
  '../../etc/passwd',
  'model.safetensors.index.json',
  'model.safetensors',
  'x'.repeat(5000),
  0,
  -1,
  0.5,
  3,
  32,
  2 ** 31,
  2 ** 53,
  1e308,
  [],
  [0],
  [32, 32],
  [-1, 4],
  [2 ** 40, 2 ** 40],
  {},
  { dtype: 'F32', shape: [1], data_offsets: [0, 4] },
];

export function writeField(bytes: Buffer, field: HeaderField, value: bigint): void {
  if (field.bytes === 4) bytes.writeUInt32LE(Number(value % 2n ** 32n), field.offset);
  else bytes.writeBigUInt64LE(value, field.offset);
}

/** Flips, overwrites, splices, removes or cuts; mostly within the first `headerBytes`. */
export function damageBytes(original: Buffer, headerBytes: number, random: Random): Buffer {
  const bytes = Buffer.from(original);
  const place = () => random.below(random.below(10) === 0 ? bytes.length : headerBytes);
  const length = () => 1 + random.below(24);
  const at = place();
  switch (random.below(6)) {
    case 0:
      for (let count = length(); count > 0; count--) {
        const flipped = place();
        bytes.writeUInt8(bytes.readUInt8(flipped) ^ (1 << random.below(8)), flipped);
      }
      return bytes;
    case 1:
      return bytes.subarray(0, at);
    case 2: {
      const from = place();
      bytes.copy(bytes, at, from, Math.min(bytes.length, from + length()));
      return bytes;
    }
    case 3:
      return Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + length())]);
    case 4: {
      const from = place();
      return Buffer.concat([
        bytes.subarray(0, at),
        bytes.subarray(from, from + length()),
        bytes.subarray(at),
      ]);
    }
    default:
      bytes.fill(random.pick([0, 1, 0x7f, 0x80, 0xff]), at, at + random.below(9));
      return bytes;
  }
}

/** A copy of a JSON value in which one or a few places, at any depth, lie. */
export function damageJson(original: unknown, random: Random): unknown {
  const root: { value: unknown } = { value: structuredClone(original) };
  for (let lies = 1 + random.below(2); lies > 0; lies--) lieAt(root, 'value', random);
  return root.value;
}

function lieAt(parent: Record<string, unknown>, key: string, random: Random): void {
  const value = parent[key];
  const keys = typeof value === 'object' && value !== null ? Object.keys(value) : [];
  if (keys.length > 0 && random.below(20) !== 0) {
    lieAt(value as Record<string, unknown>, random.pick(keys), random);
  } else if (random.below(10) === 0) {
    delete parent[key];
  } else {
    parent[key] = structuredClone(random.pick(lyingJson));
  }
}
