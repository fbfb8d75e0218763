import { expect, it } from 'vitest';
import { hasAddon } from '../../test/support/native.ts';
import { mlaModel } from '../../test/support/rare-models.ts';
import { tinyModel } from '../../test/support/tiny-model.ts';
import type { BackendName } from './backend.ts';
import { kvTypeRefusal } from './kv-type.ts';
import { sizesOf } from './memory.ts';

const latent = { headCount: 2, kvLoraRank: 32, qkNopeHeadDim: 16, qkRopeHeadDim: 4, vHeadDim: 16 };
const { spec } = tinyModel();
const mla = mlaModel({ ...latent, seed: 1, type: 'F32' }).spec;

it.each<BackendName>(['cuda', 'webgpu'])(
  'KV in q4 is refused with %s, with what to take instead',
  (backend) => {
    expect(kvTypeRefusal('q4', backend, spec)).toMatch(/take q8 with a GPU, or the backend cpu/);
    expect(kvTypeRefusal('q8', backend, spec)).toBeUndefined();
  },
);

it('KV in q4 is refused for latent attention, and only for that', () => {
  expect(kvTypeRefusal('q4', 'cpu', mla)).toMatch(/MLA.*take q8/);
  expect(kvTypeRefusal('q4', 'cpu', spec)).toBeUndefined();
  expect(kvTypeRefusal('q8', 'cpu', mla)).toBeUndefined();
  expect(kvTypeRefusal('q4', 'reference', mla)).toBeUndefined();
});

it.skipIf(!hasAddon)(
  'memory is never planned for what would be refused (skipped where the addon is not built)',
  () => {
    expect(() => sizesOf('cpu').kvBlockBytes(mla, 'q4')).toThrow('take q8');
    expect(() => sizesOf('cuda').kvBlockBytes(spec, 'q4')).toThrow('take q8 with a GPU');
    expect(() => sizesOf('webgpu').kvBlockBytes(spec, 'q4')).toThrow('take q8 with a GPU');
    expect(sizesOf('cpu').kvBlockBytes(spec, 'q4')).toBeGreaterThan(0);
  },
);
